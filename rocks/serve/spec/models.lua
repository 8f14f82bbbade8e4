-- models.lua - writes the models on which the clients tritonclient and openai are run against the server: build/tlua
-- rocks/serve/spec/models.lua FOLDER

local torch = require "tlua"
local nn = torch.nn

local M = {}

local function save(folder, name, program)
   local path = ("%s/%s/1"):format(folder, name)
   assert(torch.io.make_folder(path))
   program:save(path .. "/model.tlp")
end

local texts <const> = [[
-- This model in Lua returns each text in capitals, and the number of bytes of each text.
local torch = require "tlua"
return {
   inputs = {
      {name = "text", datatype = "BYTES", shape = {-1}}, {name = "times", datatype = "INT64", shape = {1}},
   },
   outputs = {
      {name = "upper", datatype = "BYTES", shape = {-1, 1}}, {name = "bytes", datatype = "INT64", shape = {-1}},
   },
   run = function(inputs)
      local upper, bytes = {shape = {#inputs.text, 1}}, {}
      for i, text in ipairs(inputs.text) do
         upper[i], bytes[i] = text:upper():rep(inputs.times:item()), #text
      end
      return {upper = upper, bytes = torch.tensor(bytes, {dtype = "int64"})}
   end,
}
]]

--- Writes four programs and a model in Lua: `addsub` (a + b and a - b), `mlp`, `kinds` and `more`, which return their
--- inputs, and `texts`, which is the model in Lua.
---@param folder string
function M.programs(folder)
   local function addsub(a, b) return {sum = a + b, diff = a - b} end
   save(folder, "addsub", torch.export(addsub, {torch.ones(2, 3), torch.ones(2, 3)},
      {dynamic = {a = {[1] = "n"}, b = {[1] = "n"}}}))
   torch.manual_seed(1)
   local mlp = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)):eval()
   save(folder, "mlp", torch.export(mlp, {torch.rand(1, 64)}, {dynamic = {input = {1}}}))
   local inputs, names = {}, {}
   for i, dtype in ipairs {"float32", "float64", "float16", "int8", "int16", "int32", "int64",
      "uint8", "bool"} do
      inputs[i], names[i] = torch.ones(3):to(dtype), dtype
   end
   local function same(...)
      local results = {}
      for i, x in ipairs {...} do results[names[i]] = x:clone() end
      return results
   end
   save(folder, "kinds", torch.export(same, inputs, {names = names}))
   for i, dtype in ipairs {"bfloat16", "uint16", "uint32", "uint64"} do
      inputs[i], names[i] = torch.ones(1, 3):to(dtype), dtype
   end
   local function rows(...)
      local results = {}
      for i, x in ipairs {...} do results[names[i]] = x:clone() end
      return results
   end
   local dynamic, first = {}, {}
   for i = 1, 4 do dynamic[names[i]], first[i] = {[1] = "n"}, inputs[i] end
   save(folder, "more", torch.export(rows, first, {names = {table.unpack(names, 1, 4)}, dynamic = dynamic}))
   assert(torch.io.make_folder(folder .. "/texts/1"))
   local file <close> = assert(io.open(folder .. "/texts/1/model.lua", "w"))
   file:write(texts)
end

--- Writes a small language model with random weights.
---@param folder string
function M.language(folder)
   local path = folder .. "/tiny/1"
   assert(torch.io.make_folder(path))
   local tokenizer = assert(torch.text.Tokenizer.from_str [[{"pre_tokenizer": {"type": "ByteLevel",
      "add_prefix_space": false}, "decoder": {"type": "ByteLevel"},
      "model": {"type": "BPE", "vocab": {}, "merges": []}}]])
   local trainers = torch.text.trainers
   tokenizer:train_from_iterator({"low lower lowest", "the lowest of the low"},
      trainers.BpeTrainer {vocab_size = 300, special_tokens = {"<end>"},
         initial_alphabet = trainers.byte_alphabet()})
   tokenizer.chat_template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
      .. "{% if add_generation_prompt %}assistant: {% endif %}"
   torch.manual_seed(3)
   local model = torch.text.from_config {model_type = "llama", vocab_size = 300, hidden_size = 32,
      intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 4,
      num_key_value_heads = 2, max_position_embeddings = 512, eos_token_id = 0, bos_token_id = 0}
   model:eval():save_pretrained(path)
   tokenizer:save_pretrained(path)
end

local folder = rawget(_G, "arg") and arg[0] and arg[0]:find "models%.lua$" and arg[1]
if folder then
   M.programs(folder)
   M.language(folder)
end

return M
