// Anchors the shared library target; its code is in the layers.
