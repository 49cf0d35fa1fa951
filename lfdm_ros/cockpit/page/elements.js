// Elements of the page: found by their ids, or made.

/**
 * Returns an element of the page by its id. Throws where it is none of its kind.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [kind]
 * @returns {T}
 */
export function find(id, kind) {
  const found = document.getElementById(id);
  if (!(found instanceof (kind ?? HTMLElement))) throw new Error(`the page has no ${kind?.name ?? "element"} ${id}`);
  return /** @type {T} */ (found);
}

/**
 * Makes an element.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Partial<HTMLElementTagNameMap[Tag]>} properties
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, properties = {}, ...children) {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

/** Returns the context of a canvas of the page. @param {HTMLCanvasElement} canvas */
export const context2d = canvas => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
