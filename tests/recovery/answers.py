"""The "too long" answers of providers as they arrive, and answers that look like one and are none.

Each answer was quoted in a public report, or recorded; formats/overflow.py names where.
"""

from typing import Any, NamedTuple

CHAT, CLAUDE, GEMINI = "openai-chat", "anthropic-messages", "gemini"


class Answer(NamedTuple):
    """One error of one API: its HTTP status, its JSON or text, and what it says: limit, requested, excess."""

    name: str
    api: str
    status: int
    body: dict[str, Any] | str
    figures: tuple[int | None, int | None, int | None] = (None, None, None)
    teaches: str = "at once"


def _error(message: str, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None, **more}}


def _claude(message: str, kind: str = "invalid_request_error") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}}


def _gemini(message: str, code: int = 400, status: str = "INVALID_ARGUMENT") -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status}}


_PLEASE = "Please reduce the length of the messages or completion."
_OPENAI = "This model's maximum context length is 8192 tokens. However, "
_LLAMA = "request (13392 tokens) exceeds the available context size (8192 tokens), try increasing it"
_ROUTED = (
    "This endpoint's maximum context length is 200000 tokens. However, you requested about 2500021 tokens (2500021 of text input). "
    "Please reduce the length of either one, or use the context-compression plugin to compress your prompt automatically."
)
_LM = (
    "Trying to keep the first 111490 tokens when context the overflows. However, the model is loaded with context length of only 32768 tokens, "
    "which is not enough."
)

TOO_LONG = [
    Answer(
        "anthropic",
        CLAUDE,
        400,
        _claude("prompt is too long: 3333404 tokens > 200000 maximum"),
        (200000, 3333404, None),
    ),
    Answer("anthropic without figures", CLAUDE, 413, _claude("Prompt is too long")),
    Answer(
        "anthropic with max_tokens",
        CLAUDE,
        400,
        _claude(
            "input length and `max_tokens` exceed context limit: 178959 + 64000 > 200000, decrease input length or `max_tokens` and try again"
        ),
        (200000, 178959, None),
    ),
    Answer(
        "anthropic in bytes",
        CLAUDE,
        413,
        _claude("Request exceeds the maximum size", "request_too_large"),
        teaches="never",
    ),
    Answer("bedrock", CLAUDE, 400, {"message": "Input is too long for requested model."}),
    Answer(
        "bedrock passing on",
        CLAUDE,
        400,
        {"message": "The model returned the following errors: prompt is too long: 210000 tokens > 200000 maximum"},
        (200000, 210000, None),
    ),
    Answer(
        "llama.cpp speaking messages", CLAUDE, 400, _claude(_LLAMA, "exceed_context_size_error"), (8192, 13392, None)
    ),
    Answer(
        "gemini",
        GEMINI,
        400,
        _gemini("The input token count (1250074) exceeds the maximum number of tokens allowed (1048576)."),
        (1048576, 1250074, None),
    ),
    Answer(
        "gemini without figures",
        GEMINI,
        400,
        _gemini("The input token count exceeds the maximum number of tokens allowed 1048576."),
        (1048576, None, None),
    ),
    Answer(
        "gemini by the compatible API",
        CHAT,
        400,
        _error("The input token count (1250074) exceeds the maximum number of tokens allowed (1048576)."),
        (1048576, 1250074, None),
    ),
    Answer(
        "anthropic by a gateway",
        CHAT,
        400,
        _error("litellm.BadRequestError: AnthropicException - prompt is too long: 210000 tokens > 200000 maximum"),
        (200000, 210000, None),
    ),
    Answer(
        "openai",
        CHAT,
        400,
        _error(
            _OPENAI + "your messages resulted in 9000 tokens. Please reduce the length of the messages.",
            param="messages",
            code="context_length_exceeded",
        ),
        (8192, 9000, None),
    ),
    Answer(
        "openai with functions",
        CHAT,
        400,
        _error(
            _OPENAI
            + f"you requested 9400 tokens (8000 in the messages, 400 in the functions, and 1000 in the completion). {_PLEASE}"
        ),
        (8192, 8400, None),
    ),
    Answer(
        "openai without figures",
        CHAT,
        400,
        _error(
            "Your input exceeds the context window of this model. Please adjust your input and try again.",
            code="context_length_exceeded",
        ),
    ),
    Answer(
        "deepseek",
        CHAT,
        400,
        _error(
            f"This model's maximum context length is 1048565 tokens. However, you requested 1250025 tokens (1250025 in the messages, 0 in the completion). {_PLEASE}"
        ),
        (1048565, 1250025, None),
    ),
    Answer(
        "azure",
        CHAT,
        400,
        _error(
            "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 509178 tokens. Please reduce the length of the messages.",
            code="context_length_exceeded",
        ),
        (272000, 509178, None),
    ),
    Answer(
        "openrouter",
        CHAT,
        400,
        {"error": {"message": _ROUTED, "code": 400, "metadata": {"provider_name": None}}},
        (200000, 2500021, None),
    ),
    Answer(
        "openrouter passing on",
        CHAT,
        400,
        {
            "error": {
                "message": "Provider returned error",
                "code": 400,
                "metadata": {"raw": '{"error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}'},
            }
        },
        (200000, 210000, None),
    ),
    Answer(
        "vllm",
        CHAT,
        400,
        {
            "object": "error",
            "message": _OPENAI + f"you requested 9000 tokens (8500 in the messages, 500 in the completion). {_PLEASE}",
            "type": "BadRequestError",
            "param": None,
            "code": 400,
        },
        (8192, 8500, None),
    ),
    Answer(
        "vllm's engine",
        CHAT,
        400,
        {
            "object": "error",
            "message": "The decoder prompt (length 88049) is longer than the maximum model length of 32768.",
            "type": "BadRequestError",
            "code": 400,
        },
        (32768, 88049, None),
    ),
    Answer(
        "vllm's remainder",
        CHAT,
        400,
        {
            "object": "error",
            "message": "max_tokens must be at least 1, got -186.",
            "type": "BadRequestError",
            "code": 400,
        },
        (None, None, 186),
    ),
    Answer(
        "llama.cpp",
        CHAT,
        400,
        {
            "error": {
                "code": 400,
                "message": _LLAMA,
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 13392,
                "n_ctx": 8192,
            }
        },
        (8192, 13392, None),
    ),
    Answer(
        "llama.cpp by its fields",
        CHAT,
        400,
        {
            "error": {
                "code": 400,
                "message": "the request exceeds the available context size. try increasing it",
                "type": "exceed_context_size_error",
                "n_prompt_tokens": 13392,
                "n_ctx": 8192,
            }
        },
        (8192, 13392, None),
    ),
    Answer(
        "ollama",
        CHAT,
        400,
        _error("prompt too long; exceeded max context length by 1119046 tokens (ref: 96164522)"),
        (None, None, 1119046),
    ),
    Answer(
        "mistral",
        CHAT,
        400,
        {
            "object": "error",
            "message": "Prompt contains 65673 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
            "type": "invalid_request_error",
            "code": "3051",
        },
        (32768, 65673, None),
    ),
    Answer("groq", CHAT, 400, _error(_PLEASE, code="context_length_exceeded")),
    Answer("groq as a size", CHAT, 413, _error(_PLEASE)),
    Answer(
        "xai",
        CHAT,
        400,
        {
            "code": "Client specified an invalid argument",
            "error": "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
        },
        (131072, 537812, None),
    ),
    Answer(
        "perplexity",
        CHAT,
        400,
        {
            "error": {
                "message": "The total length of all messages is too long.",
                "type": "too_many_prompt_tokens",
                "code": 400,
            }
        },
    ),
    Answer(
        "moonshot",
        CHAT,
        400,
        _error("Invalid request: Your request exceeded model token limit: 262144 (requested: 300000)"),
        (262144, 300000, None),
    ),
    Answer(
        "copilot",
        CHAT,
        400,
        _error("prompt token count of 70000 exceeds the limit of 64000", code="model_max_prompt_tokens_exceeded"),
        (64000, 70000, None),
    ),
    Answer("lm studio", CHAT, 400, {"error": _LM}, (32768, None, None)),
    Answer("lm studio as its own fault", CHAT, 500, {"error": _LM}, (32768, None, None)),
    Answer("minimax", CHAT, 400, _error("invalid params, context window exceeds limit (2013)")),
    Answer(
        "qwen",
        CHAT,
        400,
        _error("<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 98304]"),
        (98304, None, None),
    ),
    Answer("any by its code", CHAT, 400, {"error": {"code": "context_length_exceeded"}}),
    Answer(
        "any by its code, as a size",
        CHAT,
        413,
        {"error": {"code": "context_length_exceeded", "message": "Bad request"}},
    ),
    Answer(
        "in plain text",
        CHAT,
        400,
        "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        (8192, 9000, None),
    ),
    Answer("cerebras", CHAT, 400, "", teaches="once accepted"),
    Answer("cerebras as a size", CHAT, 413, "", teaches="once accepted"),
]

_STRING = "Invalid 'messages[4].content': string too long. Expected a string with maximum length 1048576, but got a string with length 1250025 instead."
_ECHO = "prompt is too long: 210000 tokens > 200000 maximum"  # a user asks about the error

LOOK_ALIKES = [
    Answer(
        "rate",
        CHAT,
        429,
        _error(
            "Rate limit reached for gpt-5 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000.",
            code="rate_limit_exceeded",
        ),
    ),
    Answer(
        "rate of one request",
        CHAT,
        429,
        _error(
            "Request too large for gpt-5 in organization org-x on tokens per min (TPM): Limit 10000, Requested 12000. The input or output tokens must be reduced in order to run successfully.",
            code="rate_limit_exceeded",
        ),
    ),
    Answer(
        "groq's rate",
        CHAT,
        413,
        _error(
            "Request too large for model `llama-3.3-70b-versatile` in organization `org_x` service tier `on_demand` on tokens per minute (TPM): Limit 12000, Requested 15000, please reduce your message size and try again.",
            type="tokens",
            code="rate_limit_exceeded",
        ),
    ),
    Answer(
        "groq's daily rate",
        CHAT,
        413,
        _error(
            "Request too large on tokens per day (TPD): Limit 100000, Requested 120000. Please reduce the length of the messages or completion."
        ),
    ),
    Answer(
        "a quota",
        CHAT,
        429,
        _error(
            "You exceeded your current quota, please check your plan and billing details.", code="insufficient_quota"
        ),
    ),
    Answer(
        "azure's rate",
        CHAT,
        429,
        _error(
            "Requests to the ChatCompletions_Create Operation have exceeded token rate limit of your current pricing tier.",
            code="429",
        ),
    ),
    Answer(
        "overflow's words with a rate's status", CHAT, 429, _error(_OPENAI + "your messages resulted in 9000 tokens.")
    ),
    Answer("overloaded", CHAT, 503, _error("The engine is currently overloaded, please try again later")),
    Answer("a fault of the server", CHAT, 500, _error("The server had an error while processing your request.")),
    Answer("no key", CHAT, 401, _error("Incorrect API key provided.", code="invalid_api_key")),
    Answer("not allowed", CHAT, 403, _error("You are not allowed to sample from this model.")),
    Answer(
        "no such model",
        CHAT,
        404,
        _error("The model `gpt-9` does not exist or you do not have access to it.", code="model_not_found"),
    ),
    Answer("one string", CHAT, 400, _error(_STRING, param="messages[4].content", code="string_above_max_length")),
    Answer(
        "one array",
        CHAT,
        400,
        _error(
            "Invalid 'messages': array too long. Expected an array with maximum length 2048, but got an array with length 2100 instead.",
            code="array_above_max_length",
        ),
    ),
    Answer(
        "too many tools",
        CHAT,
        400,
        _error(
            "Invalid 'tools': array too long. Expected an array with maximum length 128, but got an array with length 140 instead."
        ),
    ),
    Answer(
        "a tool's name",
        CHAT,
        400,
        _error("Invalid 'tools[0].function.name': string too long. Expected a string with maximum length 64."),
    ),
    Answer(
        "a tool call's id",
        CHAT,
        400,
        _error(
            "Invalid 'messages[2].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length 58 instead."
        ),
    ),
    Answer(
        "the answer's limit",
        CHAT,
        400,
        _error(
            "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
            param="max_tokens",
        ),
    ),
    Answer(
        "an old parameter",
        CHAT,
        400,
        _error(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
            code="unsupported_parameter",
        ),
    ),
    Answer(
        "a picture's bytes",
        CHAT,
        400,
        _error(
            "You uploaded an unsupported image. Please make sure your image is below 20 MB in size and is of one the following formats: ['png', 'jpeg', 'gif', 'webp'].",
            code="image_too_large",
        ),
    ),
    Answer(
        "a picture's pixels",
        CHAT,
        400,
        _error("Image size exceeds the limit of 2000x2000 pixels.", code="invalid_image"),
    ),
    Answer(
        "too many pictures",
        CHAT,
        400,
        _error("At most 5 image(s) may be provided in one prompt.", type="BadRequestError"),
    ),
    Answer(
        "a picture behind a URL",
        CHAT,
        400,
        _error("Timeout while downloading https://example.com/a.png.", code="invalid_image_url"),
    ),
    Answer(
        "a lonely result",
        CHAT,
        400,
        _error(
            "Invalid parameter: messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.",
            param="messages.[1].role",
        ),
    ),
    Answer(
        "a call without result",
        CHAT,
        400,
        _error(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'."
        ),
    ),
    Answer(
        "filtered",
        CHAT,
        400,
        _error(
            "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
            code="content_filter",
        ),
    ),
    Answer(
        "a schema that quotes the request",
        CHAT,
        422,
        {
            "detail": [
                {
                    "type": "missing",
                    "loc": ["body", "model"],
                    "msg": "Field required",
                    "input": {"messages": [{"role": "user", "content": _ECHO}]},
                }
            ]
        },
    ),
    Answer(
        "a schema in one text",
        CHAT,
        400,
        _error(
            "[{'type': 'missing', 'loc': ('body', 'model'), 'msg': 'Field required', 'input': {'messages': [{'role': 'user', 'content': '"
            + _ECHO
            + "'}]}}]"
        ),
    ),
    Answer(
        "pydantic's",
        CHAT,
        400,
        _error(
            "1 validation error for ChatCompletionRequest\nmessages.0.content\n  Input should be a valid string, input_value='maximum context length is 8 tokens, you requested 9'"
        ),
    ),
    Answer("an unknown field", CHAT, 400, _error("Unrecognized request argument supplied: context_window")),
    Answer(
        "a proxy's page",
        CHAT,
        413,
        "<html><head><title>413 Request Entity Too Large</title></head><body><center>nginx</center></body></html>",
    ),
    Answer("nothing at all, not for its size", CHAT, 500, ""),
    Answer("nothing at all, no key", CHAT, 401, ""),
    Answer("cerebras out of order", CHAT, 503, ""),
    Answer(
        "temperature",
        CHAT,
        400,
        _error("Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 3.0 instead."),
    ),
    Answer(
        "stop sequences", CHAT, 400, _error("Invalid 'stop': array too long. Expected an array with maximum length 4.")
    ),
    Answer(
        "anthropic's rate",
        CLAUDE,
        429,
        _claude(
            "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
            "rate_limit_error",
        ),
    ),
    Answer(
        "anthropic's long context rate",
        CLAUDE,
        429,
        _claude("Extra usage is required for long context requests.", "rate_limit_error"),
    ),
    Answer("anthropic overloaded", CLAUDE, 529, _claude("Overloaded", "overloaded_error")),
    Answer(
        "anthropic's answer limit",
        CLAUDE,
        400,
        _claude(
            "max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-sonnet-4-5"
        ),
    ),
    Answer(
        "anthropic's thinking budget",
        CLAUDE,
        400,
        _claude("`max_tokens` must be greater than `thinking.budget_tokens`."),
    ),
    Answer(
        "anthropic's picture",
        CLAUDE,
        400,
        _claude("messages.0.content.1.image.source.base64: image exceeds 5 MB maximum: 8123456 bytes > 5242880 bytes"),
    ),
    Answer(
        "anthropic's picture of many",
        CLAUDE,
        400,
        _claude(
            "messages.3.content.0.image.source.base64.data: At least one of the image dimensions exceed max allowed size for many-image requests: 2000 pixels"
        ),
    ),
    Answer(
        "anthropic's document",
        CLAUDE,
        400,
        _claude("messages.0.content.0.pdf.source.base64.data: A maximum of 100 PDF pages may be provided."),
    ),
    Answer(
        "anthropic's pairs",
        CLAUDE,
        400,
        _claude("messages.1: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."),
    ),
    Answer("anthropic's empty text", CLAUDE, 400, _claude("messages: text content blocks must be non-empty")),
    Answer(
        "anthropic's tool name", CLAUDE, 400, _claude("tools.0.custom.name: String should have at most 128 characters")
    ),
    Answer("anthropic's credit", CLAUDE, 400, _claude("Your credit balance is too low to access the Anthropic API.")),
    Answer("anthropic without a word", CLAUDE, 400, ""),
    Answer("bedrock's rate", CLAUDE, 429, {"message": "Too many tokens, please wait before trying again."}),
    Answer(
        "gemini's rate",
        GEMINI,
        429,
        _gemini(
            "Quota exceeded for quota metric 'Generate Content API input token count per minute'.",
            429,
            "RESOURCE_EXHAUSTED",
        ),
    ),
    Answer("gemini's payload", GEMINI, 400, _gemini("Request payload size exceeds the limit: 20971520 bytes.")),
    Answer(
        "gemini's answer limit",
        GEMINI,
        400,
        _gemini(
            "Unable to submit request because it has a maxOutputTokens value of 100000 but the supported range is from 1 (inclusive) to 65537 (exclusive)."
        ),
    ),
    Answer(
        "gemini's pairs",
        GEMINI,
        400,
        _gemini(
            "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn."
        ),
    ),
    Answer("gemini's embeddings", GEMINI, 400, _gemini("Unable to submit request because the image is too large.")),
    Answer(
        "gemini overloaded",
        GEMINI,
        503,
        _gemini("The model is overloaded. Please try again later.", 503, "UNAVAILABLE"),
    ),
]
