-- Tests the errors of torch.llm for wrong arguments.

local torch = require "tlua"

local llm = torch.llm
local path = debug.getinfo(1, "S").source:match "^@(.*)arguments_spec.lua$" .. "fixtures/llama.gguf"
local model

local function load()
   model = model or llm.load(path)
   return model
end

local function schema(value) return function() llm.Grammar.from_json_schema(value) end end

describe("a wrong argument of torch.llm", function()
   for expected, fn in pairs {
      ["llm.Model.generate: stop: expected a text that is not empty, or a list of texts, got nil"] =
         function() load():generate("a", {stop = {"x", nil, "y"}}) end,
      ["llm.Model.generate: tokens[2]: expected a token from 1 to 328, got nil"] =
         function() load():generate {1, nil, 3} end,
      ["llm.Model.generate: grammar: expected an llm.Grammar, or GBNF, got 5"] =
         function() load():generate("a", {grammar = 5}) end,
      ["llm.Model.generate: draft_model: expected an llm.Model, or \"prompt_lookup\", got 5"] =
         function() load():generate("a", {draft_model = 5}) end,
      ["llm.Model.create_chat_completion: template_variables: expected a table, got 5"] = function()
         load():create_chat_completion({{role = "user", content = "x"}}, {template_variables = 5})
      end,
      ["llm.Model.embed: input: expected a text or texts, got nil"] = function() load():embed {"a", nil, "b"} end,
      ["llm.Tokenizer.encode: special: expected a boolean, got 5"] = function() load():tokenize("a", {special = 5}) end,
      ["llm.Tokenizer.encode: text: expected UTF-8, byte 2 is not"] = function() load():tokenize "a\xff" end,
      ["llm.Grammar.from_json_schema: schema: properties: expected an object, got 5"] =
         schema {type = "object", properties = 5},
      ["llm.Grammar.from_json_schema: schema: required: expected a list, got 5"] =
         schema {type = "object", required = 5},
      ["llm.Linear: weight: expected a matrix of uint8 for the layout Q4_K, got a float32 tensor"] =
         function() llm.Linear("Q4_K", torch.ones(1, 2)) end,
      ["llm.Linear: weight: expected a matrix of floating-point numbers, got an int64 tensor"] =
         function() llm.Linear("F32", torch.ones(1, 2, {dtype = "int64"})) end,
      ["llm.Embedding: weight: expected a matrix of uint8 for the layout Q8_0, got a float32 tensor"] =
         function() llm.Embedding("Q8_0", torch.ones(1, 2)) end,
   } do
      it("is named: " .. expected, function() assert.raises(expected, fn) end)
   end
end)

describe("from_json_schema", function()
   it("leaves the schema as it is", function()
      local given = {type = "object", properties = {}, required = {"a"}}
      local grammar = llm.Grammar.from_json_schema(given)
      assert.same({type = "object", properties = {}, required = {"a"}}, given)
      assert.is_true(grammar:matches '{"a": 1}')
      assert.is_false(grammar:matches "{}")
   end)
end)
