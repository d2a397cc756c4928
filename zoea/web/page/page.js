// What textual-serve's script does not: it draws once the font is there, gives the
// terminal the keyboard, and lets the person open a closed cockpit again.
(() => {
  "use strict";

  const connect = window.onload;
  window.onload = null;

  window.addEventListener("load", async (event) => {
    const body = document.body;
    const terminal = document.querySelector("#terminal");
    const again = document.querySelector("#again");
    const address = new URL(document.querySelector("script").src);
    address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
    terminal.dataset.sessionWebsocketUrl = new URL("ws", address).href;
    again.addEventListener("click", () => window.location.reload());

    // A terminal measures its font once, so the font comes first; without it any other will do.
    const styles = ["", "bold ", "italic "].map((style) => document.fonts.load(`${style}16px "Roboto Mono"`));
    await Promise.allSettled(styles);

    new MutationObserver(() => {
      if (body.classList.contains("-closed")) {
        again.focus();
      } else if (body.classList.contains("-first-byte")) {
        terminal.querySelector("textarea").focus();
      }
    }).observe(body, { attributes: true, attributeFilter: ["class"] });

    connect(event);
  });
})();
