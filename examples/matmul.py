"""Multiplies two matrices on a pool: the one SHOAL_HUB names, else one inside this process."""
import numpy as np
import shoal

a = np.random.default_rng(0).standard_normal((300, 200), dtype=np.float32)
b = np.random.default_rng(1).standard_normal((200, 100), dtype=np.float32)
c = (shoal.from_numpy(a) @ shoal.from_numpy(b)).numpy()
print(c.shape, "as NumPy's:", np.allclose(c, a @ b, atol=1e-3))
