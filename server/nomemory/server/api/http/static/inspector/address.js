// The page's address says whose talk is looked at, and nothing else: `#user=…`.
const said = () => new URLSearchParams(location.hash.slice(1));
const inAddress = () => said().get("user") ?? "";

// Write a user into the address: as a place to come back to, or, `isSame`, in place of what it says now.
function note(user, { isSame = false } = {}) {
  const hash = user ? `#${new URLSearchParams({ user })}` : location.pathname;
  if (isSame) history.replaceState(null, "", hash);
  else if (user !== inAddress()) history.pushState(null, "", hash);
}

export const address = {
  get user() {
    return inAddress();
  },
  note,
  // Tell of each other user that the address says, by hand or by Back. A new token is taken by a new page.
  onChange: (listener) =>
    addEventListener("hashchange", () => (said().has("token") ? location.reload() : listener(inAddress()))),
};
