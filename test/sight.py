"""Colours as people see them who lack one kind of cone.

Simulated by the matrices of Machado, Oliveira and Fernandes 2009, severity 1, in linear RGB; distances in CIELAB (CIE 1976).
"""

import numpy as np

SIGHT = {
    "normal": np.eye(3),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]])}
# Linear sRGB to CIE XYZ (IEC 61966-2-1).
TO_XYZ = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])


def rgb(code: str) -> np.ndarray:
    """The values of a colour such as ff8000 (0 to 255)."""
    return np.frombuffer(bytes.fromhex(code), np.uint8).astype(float)


def lab(colours: np.ndarray, sight: str) -> np.ndarray:
    """L*, a*, b* (n, 3) of sRGB colours (n, 3) of 0 to 255 by a kind of sight, over white of D65."""
    share = np.asarray(colours) / 255.0
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    seen = np.clip(linear @ SIGHT[sight].T, 0.0, 1.0) @ TO_XYZ.T / TO_XYZ.sum(axis=1)
    f = np.where(seen > 216 / 24389, np.cbrt(seen), (24389 / 27 * seen + 16) / 116)
    return np.column_stack([116 * f[:, 1] - 16, 500 * (f[:, 0] - f[:, 1]), 200 * (f[:, 1] - f[:, 2])])
