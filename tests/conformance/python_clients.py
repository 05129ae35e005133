"""What OpenAI's and Anthropic's clients for Python must get from the tree at CANOPY_URL; ends with 1 where they do not."""

import os
import sys
import traceback

import anthropic
import openai

URL = os.environ["CANOPY_URL"]
QUESTION = "What is 17 * 23? Show the steps."
OPENAI = openai.OpenAI(base_url=f"{URL}/v1", api_key="none", max_retries=0)
ANTHROPIC = anthropic.Anthropic(base_url=URL, api_key="none", max_retries=0)


def response_tells_who_said_what():
    response = OPENAI.responses.create(
        model="moa", instructions="Be brief.", input=QUESTION, reasoning={"summary": "auto"}, metadata={"asked": "here"}
    )
    assert response.status in ("completed", "incomplete"), response.status
    assert response.output_text, response
    assert response.metadata == {"asked": "here"}, response.metadata
    usage = response.usage
    assert usage.total_tokens == usage.input_tokens + usage.output_tokens, usage
    assert [item.type for item in response.output] == ["reasoning", "message"], response.output
    assert "agents answered" in response.output[0].summary[0].text, response.output[0]


def response_stream_assembles_the_plain_answer():
    asked = {"model": "moa", "input": QUESTION, "temperature": 0, "reasoning": {"summary": "concise"}, "extra_body": {"seed": 7}}
    plain = OPENAI.responses.create(**asked)
    with OPENAI.responses.stream(**asked) as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == plain.output_text, (final, plain)
    assert types[:2] == ["response.created", "response.in_progress"], types
    assert types[-1] == f"response.{plain.status}", types
    assert types.count("response.output_text.delta") > 1, types


def response_goes_on_with_what_it_gave():
    first = OPENAI.responses.create(model="moa", input=QUESTION, max_output_tokens=3)
    assert first.status == "incomplete", first
    assert first.incomplete_details.reason == "max_output_tokens", first
    said = [item.to_dict() for item in first.output if item.type == "message"]
    turns = [{"role": "user", "content": QUESTION}, *said, {"role": "user", "content": "Go on."}]
    assert OPENAI.responses.create(model="moa", input=turns, store=False).output_text


def response_refuses_what_would_be_kept():
    for field, value in {"store": True, "previous_response_id": "resp_1", "background": True}.items():
        try:
            OPENAI.responses.create(model="moa", input="Hi", **{field: value})
        except openai.BadRequestError as error:
            assert error.param == field, error
        else:
            raise AssertionError(f"{field} was taken")


def message_has_the_usage_of_all_agents():
    message = ANTHROPIC.messages.create(
        model="moa", max_tokens=1024, system="Be brief.", messages=[{"role": "user", "content": QUESTION}]
    )
    assert message.type == "message" and message.model == "moa", message
    assert message.content[0].type == "text" and message.content[0].text, message
    assert message.stop_reason in ("end_turn", "max_tokens"), message
    assert message.usage.input_tokens > 0 and message.usage.output_tokens > 0, message


def message_stream_assembles_the_plain_answer():
    asked = {
        "model": "moa",
        "max_tokens": 1024,
        "messages": [{"role": "user", "content": QUESTION}],
        # This client knows no temperature any more; the tree does.
        "extra_body": {"seed": 7, "temperature": 0},
    }
    plain = ANTHROPIC.messages.create(**asked)
    with ANTHROPIC.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == plain.content[0].text == final.content[0].text, (text, plain)
    assert final.stop_reason == plain.stop_reason, (final, plain)
    assert final.usage.output_tokens > 0, final


def message_goes_on_with_its_blocks():
    turns = [{"role": "user", "content": QUESTION}]
    first = ANTHROPIC.messages.create(model="moa", max_tokens=8, messages=turns)
    assert first.stop_reason == "max_tokens", first
    turns += [{"role": "assistant", "content": first.content}, {"role": "user", "content": "Go on."}]
    assert ANTHROPIC.messages.create(model="moa", max_tokens=8, messages=turns).content[0].text


def message_errors_are_the_clients_own():
    turns = [{"role": "user", "content": "Hi"}]
    for fields, error, word in (
        ({"model": "nobody"}, anthropic.NotFoundError, "nobody"),
        ({"extra_body": {"temperature": 9}}, anthropic.BadRequestError, "temperature"),
        ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, anthropic.BadRequestError, "tools[0].type"),
    ):
        try:
            ANTHROPIC.messages.create(**{"model": "moa", "max_tokens": 8, "messages": turns, **fields})
        except error as refused:
            assert word in str(refused), refused
        else:
            raise AssertionError(f"{fields} was taken")


CHECKS = [value for name, value in list(globals().items()) if name.startswith(("response_", "message_"))]

failed = 0
for check in CHECKS:
    try:
        check()
        print("ok", check.__name__.replace("_", " "))
    except Exception:
        failed += 1
        print("FAILED", check.__name__.replace("_", " "))
        traceback.print_exc(file=sys.stdout)
sys.exit(1 if failed else 0)
