// The user in the fragment of the page's URL: `#user=…`.
const parameters = () => new URLSearchParams(location.hash.slice(1));
const currentUser = () => parameters().get("user") ?? "";

// Write a user to the URL, as a new history entry or, with `isSame`, in place of the current entry.
function setUser(user, { isSame = false } = {}) {
  const hash = user ? `#${new URLSearchParams({ user })}` : location.pathname;
  if (isSame) history.replaceState(null, "", hash);
  else if (user !== currentUser()) history.pushState(null, "", hash);
}

export const address = {
  get user() {
    return currentUser();
  },
  setUser,
  // Call the listener when the user in the URL changes. A new token reloads the page.
  onChange: (listener) =>
    addEventListener("hashchange", () => (parameters().has("token") ? location.reload() : listener(currentUser()))),
};
