#!/usr/bin/env python3
"""Export a model to ONNX under the names and in the two layouts that the Hub's repositories have.

    python real_model_exports.py MODEL_DIR plain|fused OUT_DIR

plain: exported by Optimum and quantized as transformers.js' own script does it, on which most repositories with a
folder `onnx` rest. Attention is written out, and each step gives a whole new cache.
fused: made by the model builder of ONNX Runtime GenAI, as the newer repositories of onnx-community are. Attention is
one operator (GroupQueryAttention), which also writes its cache in place.
"""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import onnx
import onnxslim
from onnxconverter_common.float16 import convert_float_to_float16
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_bnb4_quantizer import MatMulBnb4Quantizer
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from optimum.exporters.onnx import main_export

# By file: what the builder is told. It makes 16-bit numbers in this layout for GPUs only; a CPU runs them, too.
FUSED = {
    "model.onnx": ["-p", "fp32", "-e", "cpu"],
    "model_fp16.onnx": ["-p", "fp16", "-e", "webgpu"],
    "model_q4.onnx": ["-p", "int4", "-e", "cpu"],
    "model_q4f16.onnx": ["-p", "int4", "-e", "webgpu"],
}

# Squares of a layer's sums and sines of a place in a long text are too large or too coarse in 16 bits.
KEPT_IN_32_BITS = ("/rotary_emb/", "layernorm/", "/norm/")


def plain(model: Path, out: Path) -> None:
    """Writes the plain layout in 32 bits and what is made of it."""
    exported = out / "exported"
    main_export(
        str(model),
        output=exported,
        task="text-generation-with-past",
        dtype="fp32",
        library_name="transformers",
        do_validation=False,
    )
    whole = out / "model.onnx"
    onnx.save(onnxslim.slim(str(exported / "model.onnx")), whole)
    shutil.rmtree(exported)
    eight_bits(whole, out / "model_int8.onnx", QuantType.QInt8)
    eight_bits(whole, out / "model_uint8.onnx", QuantType.QUInt8)
    # The usual 8 bits: signed ones for a model without convolutions and fused attention.
    (out / "model_quantized.onnx").hardlink_to(out / "model_int8.onnx")
    four_bits = MatMulNBitsQuantizer(onnx.load(whole), block_size=32, is_symmetric=True)
    four_bits.process()
    onnx.save(four_bits.model.model, out / "model_q4.onnx")
    normal_floats = MatMulBnb4Quantizer(onnx.load(whole), MatMulBnb4Quantizer.NF4, block_size=64)
    normal_floats.process()
    onnx.save(normal_floats.model.model, out / "model_bnb4.onnx")
    for source, target in {"model": "model_fp16", "model_q4": "model_q4f16"}.items():
        halves(out / f"{source}.onnx", out / f"{target}.onnx")


def eight_bits(source: Path, target: Path, kind: QuantType) -> None:
    options = {"EnableSubgraph": True, "MatMulConstBOnly": True}
    quantize_dynamic(source, target, weight_type=kind, extra_options=options)


def halves(source: Path, target: Path) -> None:
    model = onnx.load(source)
    kept = [node.name for node in model.graph.node if any(part in node.name for part in KEPT_IN_32_BITS)]
    # Types that were inferred before are wrong now.
    del model.graph.value_info[:]
    onnx.save(convert_float_to_float16(model, node_block_list=kept), target)


def fused(model: Path, out: Path) -> None:
    """Writes the fused layout; most numbers lie in files beside."""
    for name, options in FUSED.items():
        # In the same process it would import the modules of its folder under names as general as "builders".
        command = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", model, "-o", out, *options]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
        done = subprocess.run([*command, "--extra_options", f"filename={name}"], check=False, **quiet)
        if done.returncode != 0:
            raise SystemExit(f"Cannot build {name}:\n{done.stderr[-2000:]}")
    for path in out.iterdir():
        if ".onnx" not in path.name:
            path.unlink()
    eight_bits(out / "model.onnx", out / "model_int8.onnx", QuantType.QInt8)
    # The usual 8 bits: unsigned ones for a model with fused attention.
    eight_bits(out / "model.onnx", out / "model_quantized.onnx", QuantType.QUInt8)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[2] not in ("plain", "fused"):
        raise SystemExit(__doc__)
    # A line for each of a thousand operators otherwise.
    logging.disable(logging.WARNING)
    target = Path(sys.argv[3])
    target.mkdir(parents=True, exist_ok=True)
    {"plain": plain, "fused": fused}[sys.argv[2]](Path(sys.argv[1]), target)
