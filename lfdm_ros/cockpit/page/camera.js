// The picture of the vehicle's camera, in a panel that a click enlarges.

export class CameraPanel {
  /** @param {HTMLButtonElement} button with a canvas in it */
  constructor(button) {
    this.button = button;
    this.canvas = /** @type {HTMLCanvasElement} */ (button.querySelector("canvas"));
    /** @type {Uint8Array<ArrayBuffer> | null} */
    this.shown = null;
    this.busy = false;
    button.onclick = () => {
      button.setAttribute("aria-pressed", String(button.classList.toggle("large")));
      button.blur();
    };
  }

  /**
   * Shows a picture once the previous one is decoded; the newest of those received meanwhile.
   * @param {Uint8Array<ArrayBuffer> | null} image JPEG; null: there is none
   */
  show(image) {
    this.button.hidden = !image;
    if (!image || this.busy || image === this.shown) return;
    [this.busy, this.shown] = [true, image];
    createImageBitmap(new Blob([image], {type: "image/jpeg"})).then(bitmap => {
      [this.canvas.width, this.canvas.height] = [bitmap.width, bitmap.height];
      this.canvas.getContext("2d")?.drawImage(bitmap, 0, 0);
      bitmap.close();
      document.body.dataset.pictures = String(1 + Number(document.body.dataset.pictures ?? 0));
    }).catch(() => {}).finally(() => { this.busy = false; });  // not a JPEG: ignored
  }
}
