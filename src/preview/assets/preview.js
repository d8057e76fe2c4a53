// Keeps the page up to date without losing the reader's place. Everything shown comes from the server; all state is in
// the address. Without this script the page works by links and forms.
"use strict";

const byId = (id) => document.getElementById(id);
const live = byId("live");
let fetching = null;
/** The reader's place in what a complaint stands in place of; it comes back with the version. */
let waiting = null;

/** Fetches the page at `address` and puts it in the place of this one: scroll positions, focus and open details stay. */
async function show(address) {
  fetching?.abort();
  const attempt = (fetching = new AbortController());
  let text;
  try {
    const response = await fetch(address, { signal: attempt.signal });
    text = await response.text();
  } catch {
    return;
  }
  const fresh = new DOMParser().parseFromString(text, "text/html");
  const page = fresh.getElementById("page");
  if (!page || attempt.signal.aborted) return;
  const kept = waiting ?? remember();
  byId("page").replaceWith(document.adoptNode(page));
  document.title = fresh.title;
  enhance();
  restore(kept);
  waiting = byId("details") ? null : kept;
}

const SCROLLED = [".nav", ".versions", ".rail", ".json"];

function remember() {
  const focused = document.activeElement;
  const isField = focused instanceof HTMLInputElement;
  return {
    x: scrollX,
    y: scrollY,
    scrolled: SCROLLED.map((selector) => document.querySelector(selector)?.scrollTop ?? 0),
    open: [...document.querySelectorAll("details[open]")].map((details) => details.id),
    focus: focused?.id,
    // What is being typed is newer than what the server knows.
    field: isField && { value: focused.value, start: focused.selectionStart, end: focused.selectionEnd },
  };
}

function restore(kept) {
  for (const id of kept.open) byId(id)?.setAttribute("open", "");
  SCROLLED.forEach((selector, index) => {
    const element = document.querySelector(selector);
    if (element) element.scrollTop = kept.scrolled[index];
  });
  const focused = kept.focus && byId(kept.focus);
  if (focused) {
    if (kept.field) focused.value = kept.field.value;
    focused.focus({ preventScroll: true });
    if (kept.field) focused.setSelectionRange(kept.field.start, kept.field.end);
  }
  scrollTo({ left: kept.x, top: kept.y, behavior: "instant" });
}

/** What only a script can do. */
function enhance() {
  byId("apply")?.setAttribute("hidden", "");
  const copy = byId("copy");
  if (copy && navigator.clipboard) copy.hidden = false;
}

function go(change) {
  const address = new URL(location.href);
  change(address.searchParams);
  history.replaceState(null, "", address);
  return show(address);
}

function choose(tab) {
  for (const other of document.querySelectorAll("[role=tab]")) {
    const chosen = other === tab;
    other.setAttribute("aria-selected", String(chosen));
    other.tabIndex = chosen ? 0 : -1;
    byId(other.getAttribute("aria-controls")).hidden = !chosen;
  }
  const address = new URL(location.href);
  address.searchParams.set("tab", tab.dataset.tab);
  history.replaceState(null, "", address);
  for (const link of document.querySelectorAll(".versions a")) {
    const version = new URL(link.href);
    version.searchParams.set("tab", tab.dataset.tab);
    link.href = version;
  }
}

document.addEventListener("click", async (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) {
    event.preventDefault();
    choose(tab);
  } else if (event.target.closest("#copy")) {
    const copy = byId("copy");
    await navigator.clipboard.writeText(byId("json").textContent);
    copy.textContent = "Copied";
    setTimeout(() => (copy.textContent = "Copy"), 1500);
  }
});

document.addEventListener("keydown", (event) => {
  const tab = event.target.closest?.("[role=tab]");
  if (!tab) return;
  const tabs = [...document.querySelectorAll("[role=tab]")];
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const next = step
    ? tabs[(tabs.indexOf(tab) + step + tabs.length) % tabs.length]
    : { Home: tabs[0], End: tabs.at(-1), " ": tab, Enter: tab }[event.key];
  if (!next) return;
  event.preventDefault();
  choose(next);
  next.focus();
});

/** What was typed since the last question; fields nobody touched stay open to what fits the release. */
const typed = new Map();
let typing;
function ask() {
  clearTimeout(typing);
  go((query) => typed.forEach((value, name) => query.set(name, value)));
  typed.clear();
}

document.addEventListener("input", (event) => {
  const field = event.target;
  if (!field.closest("#site-form")) return;
  typed.set(field.name, field.value);
  clearTimeout(typing);
  typing = setTimeout(ask, 200);
});

document.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});

/** Follows the system until somebody chooses. */
const theme = byId("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");
document.documentElement.dataset.theme = localStorage.getItem("theme") ?? "";
theme.hidden = false;
theme.addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || (dark.matches ? "dark" : "light");
  const next = now === "dark" ? "light" : "dark";
  document.documentElement.dataset.theme = next;
  localStorage.setItem("theme", next);
});

/**
 * The server names each snapshot; this page shows one of them. A browser shares six connections among all tabs of a host,
 * so only a tab that is seen holds one.
 */
let events;
function follow() {
  events?.close();
  if (document.hidden) return;
  events = new EventSource("/events");
  events.addEventListener("snapshot", async (event) => {
    const changed = event.data !== byId("page").dataset.stamp;
    if (changed) await show(location.href);
    live.className = changed ? "live on fresh" : "live on";
    if (!changed) return live.replaceChildren("Live");
    const [line, word] = [document.createElement("span"), document.createElement("span")];
    word.className = "word";
    word.textContent = "Updated ";
    line.append(word, new Date().toLocaleTimeString());
    live.replaceChildren(line);
  });
  events.addEventListener("error", () => {
    live.className = "live lost";
    live.textContent = "Not connected";
    // A refusal ends a stream; what was only broken off, the browser connects again.
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 5000);
  });
}
document.addEventListener("visibilitychange", follow);
follow();

enhance();
document.querySelector(".versions [aria-current]")?.scrollIntoView({ block: "nearest" });
