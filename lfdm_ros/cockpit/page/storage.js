// Values stored by this browser between visits, if permitted.

/** Returns the value under a name; null: there is none that can be read. @param {string} name @returns {any} */
export function recall(name) {
  try {
    return JSON.parse(localStorage.getItem(name) ?? "null");
  } catch {
    return null;
  }
}

/** Keeps a value under a name; null: forgets it. Returns whether it outlasts this page. @param {string} name @param {unknown} value */
export function keep(name, value) {
  try {
    if (value === null) localStorage.removeItem(name);
    else localStorage.setItem(name, JSON.stringify(value));
    return true;
  } catch {
    return false;
  }
}
