"""Lets an unmodified SGLang import on a machine without a GPU (Python runs this file at start-up).

SGLang imports many GPU-only packages at the top of its modules and uses none of them with `--device cpu
--attention-backend torch_native`. They are replaced by stand-ins whose every attribute exists and does nothing.
Only SGLang sees the stand-ins: transformers, torch and others probe for the same packages, and must find none.
"""

import functools
import importlib.abc
import importlib.machinery
import sys
import types

GPU_ONLY = set(
    "torchaudio torchao sgl_kernel flashinfer deep_gemm deep_ep torch_memory_saver cuda decord av soundfile timm "
    "modelscope datasets tilelang quack cutlass humming torchcodec".split()
)
PROBING = ("/transformers/", "/torch/", "/compressed_tensors/", "/xgrammar/")


class AnyType(type):
    """A class that can stand in for a class, a decorator, a type annotation, a constant or a collection."""

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return make(name)

    def __getitem__(cls, _item):
        return cls

    def __or__(cls, _other):
        return cls

    def __ror__(cls, _other):
        return cls

    def __iter__(cls):
        return iter(())


def make(name):
    def call(self, *args, **_kwargs):  # as a decorator it leaves the function as it is
        return args[0] if args and callable(args[0]) else None

    return AnyType(name, (), {"__init__": lambda self, *args, **kwargs: None, "__call__": call})


class StandIn(types.ModuleType):
    __version__ = "99.0.0"

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        value = make(name)
        setattr(self, name, value)
        return value


class StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Comes last: a package that is installed wins."""

    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] not in GPU_ONLY:
            return None
        frame, depth = sys._getframe(1), 0
        while frame and depth < 12:
            file = frame.f_code.co_filename
            if any(part in file for part in PROBING):
                return None
            if "/sglang/" in file:
                break
            frame, depth = frame.f_back, depth + 1
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        module = StandIn(spec.name)
        module.__path__ = []
        module.__file__ = "<stand-in>"
        return module

    def exec_module(self, module):
        pass


class CudaEvent:
    """torch.cuda.Event and torch.cuda.current_stream: SGLang takes them without asking whether there is a GPU."""

    def __init__(self, *args, **kwargs):
        pass

    def record(self, *args, **kwargs):
        pass

    def wait(self, *args, **kwargs):
        pass

    def synchronize(self):
        pass

    def query(self):
        return True

    def elapsed_time(self, _other):
        return 0.0


def without_pinning(function):
    """0.5.23's prefill server takes page-locked memory without asking whether there is a GPU to lock it for."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        kwargs.pop("pin_memory", None)
        return function(*args, **kwargs)

    return call


class BeforeSglang(importlib.abc.MetaPathFinder):
    """Runs once, when something imports sglang, so that Python programs without SGLang pay nothing."""

    done = False

    def find_spec(self, name, path=None, target=None):
        if name != "sglang" or BeforeSglang.done:
            return None
        BeforeSglang.done = True
        import torch
        import transformers.utils.import_utils as probes

        torch.cuda.Event = CudaEvent
        torch.cuda.current_stream = lambda *args, **kwargs: CudaEvent()
        torch.empty = without_pinning(torch.empty)
        # These remember their answer: ask while the GPU-only packages are still absent for everybody.
        for probe in dir(probes):
            if probe.startswith("is_") and probe.endswith("_available"):
                try:
                    getattr(probes, probe)()
                except Exception:
                    pass  # probes that want an argument remember nothing
        return None


sys.meta_path.insert(0, BeforeSglang())
sys.meta_path.append(StandIns())
