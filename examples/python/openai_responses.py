"""A response by OpenAI's client, whose reasoning summary names the agents. pip install openai"""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("CANOPY_URL", "http://127.0.0.1:8000") + "/v1",
    api_key=os.environ.get("CANOPY_API_KEY", "none"),
)

response = client.responses.create(
    model=os.environ.get("CANOPY_MODEL", "moa"),
    instructions="Be brief.",
    input="What is 17 * 23?",
    max_output_tokens=256,
    reasoning={"summary": "concise"},
)
for item in response.output:
    if item.type == "reasoning":
        print("\n".join(part.text for part in item.summary), "\n")
print(response.output_text)
print(f"\n{response.usage.input_tokens} tokens read, {response.usage.output_tokens} written by all agents")
