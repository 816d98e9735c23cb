// Why a tool was found: the parts of its score, drawn and in words.
import { html, svg, nothing, percent } from "./ui.js";

/** What the features of the ranking mean. */
const features = {
  words: "words in common", meaning: "near in meaning", "step meaning": "near one step of the task",
};
const colours = ["words", "meaning", "step meaning"];
const fields = ["name", "description", "parameters", "parameter descriptions", "server"];

const colour = (list, name) => { const i = list.indexOf(name); return `c${(i < 0 ? list.length : i) % 7}`; };

/** bar stacks shares of a whole. The same shares stand next to it as text. */
function bar(parts, whole = 1) {
  let x = 0;
  return html`<svg class="stack" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">
    ${svg`<rect class="rest" width="100" height="8"/>`}${parts.map(([share, c]) => {
      const at = x;
      x += share * whole * 100;
      return svg`<rect class=${c} x=${at.toFixed(2)} width=${Math.max(0, share * whole * 100 - 0.4).toFixed(2)} height="8"/>`;
    })}</svg>`;
}

const key = (c, text) => html`<li><span class="key ${c}"></span>${text}</li>`;

/** why draws an explanation of a search as selector.Explanation has it. */
export function why(e) {
  const made = e.features.filter((f) => f.share >= 0.005);
  const words = e.words ?? [];
  const used = fields.filter((f) => words.some((w) => f in w.fields));
  for (const w of words) for (const f of Object.keys(w.fields)) if (!used.includes(f)) used.push(f);
  return html`<div class="why">
    <p class="caption">The score is made of</p>
    ${bar(made.map((f) => [f.share, colour(colours, f.name)]))}
    <ul class="keys">${made.map((f) => key(colour(colours, f.name), html`${features[f.name] ?? f.name} <b>${percent(f.share)}</b>`))}</ul>
    ${words.length ? html`<p class="caption">The share of each word, and the fields that have it</p>
      <table class="words"><caption class="sr">Share of each word, by field</caption>
        <thead class="sr"><tr><th scope="col">Word</th><th scope="col">Share</th><th scope="col">Fields</th></tr></thead>
        <tbody>${words.map((w) => {
          const parts = Object.entries(w.fields).sort((a, b) => b[1] - a[1]);
          return html`<tr><th scope="row">${w.word}</th>
            <td class="num">${percent(w.share)}</td>
            <td>${bar(parts.map(([f, share]) => [share, colour(fields, f)]), w.share)}
              <span class="sr">${parts.map(([f, share]) => `${f} ${percent(share)}`).join(", ")}</span></td></tr>`;
        })}</tbody></table>
      <ul class="keys">${used.map((f) => key(colour(fields, f), f))}</ul>` : html`<p class="muted">The tool has no word of the search. It was found by its meaning.</p>`}
    ${e.missing?.length ? html`<p class="muted">Words that the tool does not have: ${e.missing.join(", ")}</p>` : nothing}
  </div>`;
}
