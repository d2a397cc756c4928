"""Twenty facts with questions in other words, and the talk that lies between."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StatedFact:
    """What was said, how it is asked for, and what a right answer holds."""

    said: str
    asked: str
    value: str


FACTS = tuple(
    StatedFact(*row)
    for row in (
        ("The Heron lies at berth B7.", "Which berth has the ship Heron?", "B7"),
        ("The door code of the archive is 5813.", "What code opens the archive?", "5813"),
        ("Our dentist is called Doctor Marsh.", "What is the name of the dentist?", "Marsh"),
        ("The server of the shop listens on port 8471.", "On which port is the server of the shop?", "8471"),
        ("Lena's birthday is the 9th of March.", "When has Lena birthday?", "March"),
        ("The meeting about the budget is in room Oak.", "In which room do we meet about the budget?", "Oak"),
        ("The wifi password is heronblue.", "What is the password of the wifi?", "heronblue"),
        ("The train to Porto leaves at 06:52.", "At what time does the Porto train go?", "06:52"),
        ("My cat is called Pixel.", "What is my cat's name?", "Pixel"),
        ("The invoice of the painter is number 3307.", "Which number has the painter's invoice?", "3307"),
        ("The spare key is under the green pot.", "Where is the spare key hidden?", "pot"),
        ("Tom is allergic to walnuts.", "Against what is Tom allergic?", "walnut"),
        ("The deadline of the grant is the 17th of June.", "Until when must the grant be handed in?", "June"),
        ("The boiler was repaired by the company Kessel.", "Which company repaired the boiler?", "Kessel"),
        ("Ida's flight has the number LX318.", "What is the number of Ida's flight?", "LX318"),
        ("The garden needs 40 litres of water a day.", "How much water does the garden need?", "40"),
        ("The printer on the second floor is named Gutenberg.", "What is the printer's name?", "Gutenberg"),
        ("The lawyer's fee is 220 euros an hour.", "What does the lawyer cost an hour?", "220"),
        ("The backup runs on Tuesday nights.", "On which nights does the backup run?", "Tuesday"),
        ("The parcel for Nora stands with the neighbour Weber.", "Who has the parcel for Nora?", "Weber"),
    )
)
FILLER = {
    "Good morning.": "Good morning. What can I do for you?",
    "Write a short greeting for the newsletter.": "Dear readers, welcome to this month's news.",
    "Say that the coffee machine works again.": "The coffee machine works again.",
    "Name a colour that goes with blue.": "White goes well with blue.",
    "Thank the team for the good week.": "Thank you all for a good week.",
    "Shorten this: we are happy to say that we won.": "We won.",
    "Is it better to write short or long sentences?": "Short sentences are easier to read.",
    "Name a word that rhymes with light.": "Night.",
    "Say in one sentence why tests help.": "Tests show at once what a change has broken.",
    "Suggest a title for a talk about bees.": "The quiet work of bees.",
    "What do you call a young dog?": "A puppy.",
    "Write a friendly reminder to water the plants.": "Please remember to water the plants today.",
    "Name two fruits.": "Apple and pear.",
    "Say that lunch is ready.": "Lunch is ready.",
    "What follows after the letter f?": "The letter g.",
    "Write one sentence about rain.": "The rain fell softly on the roof.",
    "Suggest a name for a boat.": "Morning Star.",
    "Say good luck in a friendly way.": "Good luck, you will do well.",
    "Which month follows May?": "June.",
    "Write a line for a postcard from the sea.": "Greetings from the sea, the water is warm.",
    "Name a tool for cutting paper.": "Scissors.",
    "Say that the report is finished.": "The report is finished.",
    "Name a quiet hobby.": "Reading.",
}
"""The talk between: prompts with their answers, because a model repeats what it seems to have always said."""
