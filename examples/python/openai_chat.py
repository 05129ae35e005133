"""A streamed answer by OpenAI's client, then who said what. pip install openai"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("CANOPY_URL", "http://127.0.0.1:8000") + "/v1",
    api_key=os.environ.get("CANOPY_API_KEY", "none"),
)

stream = client.chat.completions.create(
    model=os.environ.get("CANOPY_MODEL", "moa"),
    messages=[{"role": "user", "content": "What is 17 * 23? Show the steps."}],
    max_tokens=256,
    stream=True,
    stream_options={"include_usage": True},
    extra_body={"canopy": {"include": ["panel"]}},
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
    if chunk.usage is not None:
        print(f"\n\n{chunk.usage.prompt_tokens} tokens read, {chunk.usage.completion_tokens} written by all agents")
    for said in (chunk.model_extra or {}).get("canopy", {}).get("panel", []):
        print(f"{said['agent']} ({said['model']}): {said['text'][:60]!r}")
