// Posts a basket to the buyer's system as soon as the page is there; without scripts its button does.
document.getElementById("home").requestSubmit();
