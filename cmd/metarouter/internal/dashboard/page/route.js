// Where the page is: #tools?q=words. The address bar is the only owner of that, so that
// reload, back and links work.

export const views = ["servers", "tools", "calls", "approvals", "clients", "configuration"];

/** route reads the address. */
export function route() {
  const [view, query = ""] = location.hash.slice(1).split("?", 2);
  return { view: views.includes(view) ? view : "servers", params: new URLSearchParams(query) };
}

/**
 * link is the address of a view.
 * @param {Record<string, string|string[]|undefined>} [params] empty ones are left out
 */
export function link(view, params = {}) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params)) {
    for (const one of [value ?? ""].flat()) if (one !== "") query.append(key, one);
  }
  return `#${view}${query.size ? `?${query}` : ""}`;
}

/** replace goes to an address without a step for the back button. */
export function replace(hash) {
  history.replaceState(null, "", hash);
}
