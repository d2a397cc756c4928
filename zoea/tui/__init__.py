"""The cockpit: the Textual app over `SwarmApi`.

Fronts read views and events, and send commands; no rule of the swarm is decided here.
"""

import os

# Textual draws what a key did in its next frame: at its usual 60 a second up to 17 ms later, a third of what an
# answer may take. It draws no more for it, since it draws only what changed. It reads this once, when imported.
os.environ.setdefault("TEXTUAL_FPS", "240")
