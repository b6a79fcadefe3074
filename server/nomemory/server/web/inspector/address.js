// The page's address says whose talk is looked at, and nothing else: `#user=…`.
const inAddress = () => new URLSearchParams(location.hash.slice(1)).get("user") ?? "";

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
  // Tell of each other user that the address says, by hand or by Back.
  onChange: (listener) => addEventListener("hashchange", () => listener(inAddress())),
};
