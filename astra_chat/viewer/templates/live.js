"use strict";
(() => {
  const PERIOD_MS = 1000;
  const list = document.getElementById("live");
  const turns = document.getElementById("turns");
  const refreshList = async () => {
    const answer = await fetch(list.dataset.from);
    if (!answer.ok) return;
    const chosen = new Set([...list.querySelectorAll("input:checked")].map((one) => one.value));
    const text = await answer.text();
    if (text === list.dataset.last) return;
    list.dataset.last = text;
    list.innerHTML = text;
    for (const one of list.querySelectorAll("input")) one.checked = chosen.has(one.value);
  };
  const addTurns = async () => {
    const answer = await fetch(turns.dataset.from + turns.dataset.seen);
    if (!answer.ok) return;
    const news = await answer.json();
    document.getElementById("state").textContent = news.state;
    turns.querySelector(".after")?.remove();
    turns.insertAdjacentHTML("beforeend", news.html);
    turns.dataset.seen = news.turns;
    if (news.over) location.reload();
  };
  const again = async () => {
    try {
      await (list ? refreshList() : addTurns());
    } catch {
      if (!list) document.getElementById("state").textContent = "the viewer has ended";
    }
    setTimeout(again, PERIOD_MS);
  };
  setTimeout(again, PERIOD_MS);
})();
