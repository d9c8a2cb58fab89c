// Posts the basket to the buyer's system when the page loads; without scripts, the user presses the button.
document.getElementById("home").requestSubmit();
