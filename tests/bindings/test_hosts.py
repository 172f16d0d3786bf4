"""The SDKs' clients for other hosts: Azure, Bedrock, Vertex, Foundry.  They rewrite and sign what the wrapper leaves."""

import json
import sys
from types import SimpleNamespace
from typing import Any

import anthropic
import anthropic.lib.bedrock
import anthropic.lib.vertex
import botocore.session
import openai
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from compacting_client import compacting, control
from compacting_client.testing import Provider
from tests.bindings.support import POLICY, chat_request, claude_request, history, is_compacted, sent

MODEL = "anthropic.claude-sonnet-4-6"


def azure(provider: Provider, kind: Any = openai.AzureOpenAI) -> Any:
    return kind(azure_endpoint=provider.url, api_version="2024-10-21", api_key="test", max_retries=0)


def test_azure(provider: Provider) -> None:
    """The deployment's path is made later, from the body that the wrapper left; derived clients too."""
    with azure(provider) as plain:
        client = compacting(plain, POLICY)
        assert type(client) is openai.AzureOpenAI
        response = client.chat.completions.create(**chat_request())
        list(client.with_options(timeout=30).chat.completions.create(**chat_request(), stream=True))
        assert [request.status for request in provider.requests] == [200, 200]
        assert all(request.path == "/openai/deployments/gpt-5/chat/completions" for request in provider.requests)
        assert is_compacted(sent(provider, 0), history(system=True))
        assert sent(provider, 0) == sent(provider, 1)
        assert control(client).report_for(response) is not None


async def test_azure_async(provider: Provider) -> None:
    """The same, awaited."""
    async with azure(provider, openai.AsyncAzureOpenAI) as plain:
        await compacting(plain, POLICY).chat.completions.create(**chat_request())
    assert provider.requests[0].status == 200
    assert is_compacted(sent(provider), history(system=True))


def bedrock_compatible(provider: Provider) -> Any:
    return openai.BedrockOpenAI(api_key="test", base_url=provider.openai_url, max_retries=0)


@pytest.mark.skipif(not hasattr(openai, "BedrockOpenAI"), reason="this SDK has no such client")
def test_bedrock_of_the_openai_sdk(provider: Provider) -> None:
    """Bedrock's OpenAI-compatible endpoint, by a bearer token."""
    with bedrock_compatible(provider) as plain:
        compacting(plain, POLICY).chat.completions.create(**chat_request())
    assert provider.requests[0].status == 200
    assert is_compacted(sent(provider), history(system=True))


def test_foundry(provider: Provider) -> None:
    """Anthropic on Azure answers on its own path; derived clients too."""
    with anthropic.AnthropicFoundry(base_url=f"{provider.url}/anthropic", api_key="test", max_retries=0) as plain:
        client = compacting(plain, POLICY)
        client.messages.create(**claude_request())
        client.with_options(timeout=30).messages.create(**claude_request())
        list(client.beta.messages.create(**claude_request(), stream=True))
    assert [request.status for request in provider.requests] == [200] * 3
    assert is_compacted(sent(provider, 0), history())
    assert sent(provider, 0) == sent(provider, 1) == sent(provider, 2)


VERTEX: Any = {"region": "europe-west1", "project_id": "mine", "access_token": "test", "max_retries": 0}


def test_vertex(provider: Provider) -> None:
    """The model moves into the path; `region`, a cached property, survives the making of the twin."""
    with anthropic.lib.vertex.AnthropicVertex(base_url=provider.url, **VERTEX) as plain:
        client = compacting(plain, POLICY)
        for each in (client, client.with_options(timeout=30)):
            with pytest.raises(anthropic.NotFoundError):  # the loopback provider does not know the path
                each.messages.create(**claude_request(model="claude-sonnet-4-6@20260101"))
    for request in provider.requests:
        assert request.path.endswith("/europe-west1/publishers/anthropic/models/claude-sonnet-4-6@20260101:rawPredict")
        assert is_compacted(request.body["messages"], history())


class Session:
    """What the SDK asks of boto3, by botocore."""

    def __init__(self, *, region_name: str, aws_access_key_id: str, aws_secret_access_key: str, **_: Any) -> None:
        self.region_name = region_name
        self._session = botocore.session.Session()
        self._session.set_credentials(aws_access_key_id, aws_secret_access_key)

    def get_credentials(self) -> Any:
        return self._session.get_credentials()


BEDROCK: Any = {"aws_region": "eu-west-1", "aws_access_key": "AKID", "aws_secret_key": "secret", "max_retries": 0}


def signature(provider: Provider, index: int) -> str:
    """The signature that this request ought to have, by botocore, over the body that arrived."""
    request = provider.requests[index]
    names = request.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
    body = json.dumps(request.body, ensure_ascii=False, separators=(",", ":")).encode()
    assert str(len(body)) == request.headers["content-length"]
    made = AWSRequest("POST", provider.url + request.path, {name: request.headers[name] for name in names}, body)
    made.context["timestamp"] = request.headers["x-amz-date"]
    session = Session(region_name="eu-west-1", aws_access_key_id="AKID", aws_secret_access_key="secret")
    signer = SigV4Auth(session.get_credentials(), "bedrock", "eu-west-1")
    return str(signer.signature(signer.string_to_sign(made, signer.canonical_request(made)), made))


@pytest.fixture
def boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", SimpleNamespace(Session=Session))


@pytest.mark.usefixtures("boto3")
def test_bedrock_is_signed_over_the_body_that_is_sent(provider: Provider) -> None:
    """The wrapper stands above signing: AWS gets the compacted body with a signature that fits it; beta and derived clients too."""
    with anthropic.lib.bedrock.AnthropicBedrock(base_url=provider.url, **BEDROCK) as plain:
        client: Any = compacting(plain, POLICY)
        for call in (
            client.messages.create,
            client.beta.messages.create,
            client.with_options(timeout=30).messages.create,
        ):
            with pytest.raises(anthropic.NotFoundError):  # the loopback provider does not know the path
                call(**claude_request(model=MODEL))
    for index, request in enumerate(provider.requests):
        assert request.path == f"/model/{MODEL}/invoke"
        assert is_compacted(request.body["messages"], history())
        assert request.headers["authorization"].endswith(f"Signature={signature(provider, index)}")


@pytest.mark.usefixtures("boto3")
async def test_bedrock_async(provider: Provider) -> None:
    """The same, awaited."""
    async with anthropic.lib.bedrock.AsyncAnthropicBedrock(base_url=provider.url, **BEDROCK) as plain:
        with pytest.raises(anthropic.NotFoundError):
            await compacting(plain, POLICY).messages.create(**claude_request(model=MODEL))
    assert is_compacted(sent(provider), history())
    assert provider.requests[0].headers["authorization"].endswith(f"Signature={signature(provider, 0)}")
