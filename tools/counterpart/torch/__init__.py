"""What speech-to-speech needs of torch to tell speech from silence, on numpy: torch itself is gigabytes, and its model is fetched from a hub."""

import contextlib
import types

import numpy

__version__ = "2.4.0"


class Tensor:
    def __init__(self, values):
        self.values = numpy.asarray(values, dtype=numpy.float32)

    def __len__(self):
        return len(self.values)

    def __getitem__(self, key):
        return Tensor(self.values[key])

    def dim(self):
        return self.values.ndim

    def cpu(self):
        return self

    def numpy(self):
        return self.values

    def item(self):
        return float(self.values)


class LoudIsSpeech:
    """Stands for the model: nobody but a caller is on this line."""

    def reset_states(self):
        pass

    def __call__(self, samples, _rate):
        loud = float(numpy.sqrt(numpy.mean(samples.values**2))) > 0.005
        return Tensor(0.99 if loud else 0.01)


class no_grad(contextlib.ContextDecorator):
    def __enter__(self):
        return self

    def __exit__(self, *_):
        return False


def from_numpy(values):
    return Tensor(values)


def is_tensor(value):
    return isinstance(value, Tensor)


def cat(parts):
    return Tensor(numpy.concatenate([part.values for part in parts]))


hub = types.SimpleNamespace(load=lambda *_, **__: (LoudIsSpeech(), None))
cuda = types.SimpleNamespace(is_available=lambda: False)
backends = types.SimpleNamespace(mps=types.SimpleNamespace(is_available=lambda: False))
