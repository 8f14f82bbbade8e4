-- Tests torch.text's models. The models of fixtures/models.json, with the weights of fixtures/models.py, must give
-- transformers' outputs, gradients and tokens. Files that do not match a model must be refused.

local torch = require "tlua"
local device = require "spec.support.device"
local json = require "tlua.utils.json"
local waves = dofile "rocks/text/spec/waves.lua"

local text = torch.text

local function read_rows()
   local file <close> = assert(io.open "rocks/text/spec/fixtures/models.json")
   return assert(json.decode(file:read "a"))
end

local rows = read_rows()

local wave, model_of = waves.wave, waves.model

local function ids_of(list) return torch.tensor(list, {dtype = "int64"}) + 1 end

local function inputs_of(row)
   local given = {}
   if row.input_ids then given.input_ids = ids_of(row.input_ids) end
   if row.mask then given.attention_mask = torch.tensor(row.mask) end
   local kind = row.config.architectures[1]
   if not row.mask or not (row.labels or row.start_positions) then
      given.pixel_values = wave({2, 3, 8, 8}, 5, 1):float()
   end
   if row.mask and not (row.labels or row.start_positions) then given.return_loss = true end
   for _, name in ipairs {"labels", "start_positions", "end_positions"} do
      if row[name] then
         local value = torch.tensor(row[name])
         given[name] = kind:find "ForPreTraining" and value or torch.where(value:lt(0), value, value + 1)
      end
   end
   return given
end

local names = {}
for name in pairs(rows) do names[#names + 1] = name end
table.sort(names)

-- Writes files to a folder and returns its path. A later call of `forget` removes the folder.
local folders = {}
local function new_folder(files)
   local folder = os.tmpname()
   os.remove(folder)
   torch.io.make_folder(folder)
   folders[#folders + 1] = folder
   for name, content in pairs(files or {}) do
      local path = folder .. "/" .. name
      if type(content) == "string" then
         local file <close> = assert(io.open(path, "wb"))
         file:write(content)
      else
         torch.save(content, path)
      end
   end
   return folder
end

local small = {model_type = "gpt2", vocab_size = 11, n_positions = 16, n_embd = 8, n_layer = 1, n_head = 2}

local function message_of(fn, ...)
   local ok, message = pcall(fn, ...)
   assert.is_false(ok)
   return tostring(message)
end

describe("torch.text's models", function()
   teardown(function()
      for _, folder in ipairs(folders) do os.execute("rm -rf '" .. folder .. "'") end
   end)

   for _, name in ipairs(names) do
      it("has transformers' outputs and gradients: " .. name, function()
         local row = rows[name]
         local model = model_of(row)
         local result = model(inputs_of(row))
         local logits = result.logits or result.start_logits or result.logits_per_image
         local flat = logits:select(1, -1):flatten()
         for i, expected in ipairs(row.logits) do
            local at = math.floor((i - 1) * (#flat - 1) / 5 + 1e-6) + 1
            local actual = flat[at]:item()
            assert.is_true(math.abs(actual - expected) < 1e-4, ("logit %d: %g, expected %g"):format(at, actual,
               expected))
         end
         assert.is_true(math.abs(result.loss:item() - row.loss) < 1e-4, result.loss:item())
         result.loss:backward()
         local total = 0
         for _, p in ipairs(model:parameters()) do
            if p.grad then total = total + p.grad:double():abs():sum():item() end
         end
         assert.is_true(math.abs(total - row.gradients) < 2e-4 * row.gradients, ("%g, expected %g"):format(total,
            row.gradients))
      end)

      if rows[name].greedy then
         it("continues texts as transformers does: " .. name, function()
            local row = rows[name]
            local model, given = model_of(row), inputs_of(row)
            local options = {attention_mask = given.attention_mask, max_new_tokens = 8, pad_token_id = 37}
            local static = {cache = "static"}
            for key, value in pairs(options) do static[key] = value end
            local greedy = model:generate(given.input_ids, options)
            assert.same(ids_of(row.greedy):tolist(), greedy:tolist())
            assert.same(greedy:tolist(), model:generate(given.input_ids, static):tolist())
            static.use_cache = false
            -- In these models, the rotation of keys depends on the length of the text. Cached keys keep the rotation of
            -- their step, so generation without a cache may give other tokens.
            if name ~= "phi3_longrope" and name ~= "llama_dynamic" then
               assert.same(greedy:tolist(), model:generate(given.input_ids, static):tolist())
            end
            options.num_beams = 3
            assert.same(ids_of(row.beam):tolist(), model:generate(given.input_ids, options):tolist())
         end)
      end
   end

   it("loads what it has saved, in one file or several, with other dtypes", function()
      local model = text.from_config(small):eval()
      local ids = torch.tensor {{1, 2, 3}}
      local expected = model(ids).logits
      for _, options in ipairs {{}, {max_shard_size = 600}} do
         local folder = new_folder()
         model:save_pretrained(folder, options)
         local again = text.from_pretrained(folder, {device = device.name})
         assert.is_true(torch.equal(expected, again(ids).logits))
         assert.is_true(rawequal(again.lm_head.weight, again.transformer.wte.weight))
         assert.is_false(again.training)
         assert.equal("bfloat16", text.from_pretrained(folder, {dtype = "bfloat16"}).lm_head.weight.dtype)
         local base = text.from_pretrained(folder, {architecture = "GPT2Model", device = device.name})
         assert.equal("text.GPT2Model", torch.type(base))
         assert.same({1, 3, 8}, {table.unpack(base(ids).last_hidden_state.shape)})
         local other, missing = text.from_pretrained(folder, {architecture = "ForSequenceClassification",
            strict = false, config = {num_labels = 3, pad_token_id = 0}, device = device.name})
         assert.same({"score.weight"}, missing)
         assert.same({1, 3}, {table.unpack(other(ids).logits.shape)})
      end
   end)

   it("refuses more layers than the files have tensors", function()
      local folder = new_folder()
      text.from_config(small):save_pretrained(folder)
      assert.match("config.json: n_layer: expected at most %d+, the number of tensors in the files, got 1000",
         message_of(text.from_pretrained, folder, {config = {n_layer = 1000}}))
   end)

   it("computes the loss of half-precision models in float32, as transformers does", function()
      for _, name in ipairs {"ForCausalLM", "ForMaskedLM"} do
         local kind = name == "ForCausalLM" and small
            or {model_type = "bert", vocab_size = 16, hidden_size = 8, num_hidden_layers = 1, num_attention_heads = 2,
               intermediate_size = 8}
         local model = text.from_config(kind, {architecture = name}):to("bfloat16"):eval()
         local ids = torch.tensor {{1, 2, 3}}
         local result = model(ids, {labels = ids})
         assert.equal("bfloat16", result.logits.dtype)
         assert.equal("float32", result.loss.dtype)
         result.loss:backward()
      end
   end)

   it("leaves no weights of an earlier model in the folder", function()
      local first, second = text.from_config(small):eval(), text.from_config(small):eval()
      local ids, folder = torch.tensor {{1, 2, 3}}, new_folder()
      local function saves(model, options)
         model:save_pretrained(folder, options)
         local again = text.from_pretrained(folder, {device = device.name})
         assert.is_true(torch.equal(model(ids).logits, again(ids).logits))
      end
      saves(first)
      saves(second, {max_shard_size = 600})
      saves(first)
      assert.is_nil(io.open(folder .. "/model.safetensors.index.json"))
   end)

   it("raises errors that name the weights and fields that do not fit", function()
      local model = text.from_config(small)
      local state = model:state_dict {names = "pytorch"}
      local config = json.encode(small)
      local function load(changes, index)
         local own = {}
         for key, value in pairs(state) do own[key] = value end
         own["lm_head.weight"] = nil
         for key, value in pairs(changes) do own[key] = value or nil end
         return message_of(text.from_pretrained, new_folder {["config.json"] = config,
            [index and "one.safetensors" or "model.safetensors"] = own, ["model.safetensors.index.json"] = index})
      end
      assert.match("missing: transformer.h.0.ln_1.bias", load {["transformer.h.0.ln_1.bias"] = false})
      assert.match("unexpected: transformer.h.0.wrong", load {["transformer.h.0.wrong"] = torch.ones(1)})
      assert.match("transformer.wpe.weight: expected shape %(16, 8%), got %(15, 8%)",
         load {["transformer.wpe.weight"] = torch.ones(15, 8)})
      assert.match("in this folder, got \"%.%./one%.safetensors\"",
         load({}, '{"weight_map": {"lm_head.weight": "../one.safetensors"}}'))
      assert.match("weight_map: expected an object", load({}, "{}"))
      assert.match("is not in the index for this file", load({}, '{"weight_map": {"a": "one.safetensors"}}'))
      assert.match("index%.json", load({}, "[1"))
      assert.match("No such file", message_of(text.from_pretrained, "/nowhere"))
      assert.match("has neither", message_of(text.from_pretrained, new_folder {["config.json"] = config}))
      assert.match('no model_type "gpt3"; did you mean gpt2', message_of(text.from_config, {model_type = "gpt3"}))
      assert.match("model_type: expected a string", message_of(text.from_config, {}))
      assert.match("no class \"GPT2LMHead\"", message_of(text.from_config, small, {architecture = "GPT2LMHead"}))
      assert.match("n_embd: expected a multiple of n_head", message_of(text.from_config,
         {model_type = "gpt2", n_embd = 10, n_head = 4}))
      assert.match("n_layer: expected a number", message_of(text.from_config, {model_type = "gpt2", n_layer = "2"}))
      assert.match("there is no type \"lama3\"", message_of(text.from_config, {model_type = "llama", hidden_size = 8,
         num_attention_heads = 2, num_hidden_layers = 1, rope_scaling = {rope_type = "lama3"}}))
   end)

   -- Without gradients, the layers release the intermediate tensors of a long prompt at once.
   it("keeps each tensor of a long prompt that a hook or the caller has", function()
      if device.name and device.name:find "cuda" then
         pending "tests code without kernels, and takes a minute on an emulated GPU"
         return
      end
      local _ <close> = torch.no_grad()
      for kind, skipped in pairs {llama = "^model.layers.2.", phi3 = "[^v]_proj"} do
         local model = text.from_config {model_type = kind, vocab_size = 50, hidden_size = 512, intermediate_size = 8,
            num_hidden_layers = 2, num_attention_heads = 8, num_key_value_heads = 1, pad_token_id = 1}
         local ids = torch.arange(0, 64):remainder(50):add(1):long():unsqueeze(1)
         local all = model(ids, {output_hidden_states = true})
         local expected, held = all.logits, {table.unpack(all.hidden_states)}
         local function keep(_, given, result)
            for _, value in ipairs(given) do held[#held + 1] = value end
            held[#held + 1] = result
         end
         for name, module in model:named_modules() do
            if not name:find(skipped) then
               local first, second = module:register_forward_pre_hook(keep), module:register_forward_hook(keep)
               assert.close(expected, model(ids, {use_cache = true}).logits, 0)
               first:remove()
               second:remove()
            end
         end
         local embedded = model:embed(ids)
         assert.close(expected, model(nil, {inputs_embeds = embedded}).logits, 0)
         held[#held + 1] = embedded
         local count = 0
         for _, value in ipairs(held) do
            if torch.is_tensor(value) then
               assert.is_true(value:isfinite():all():item())
               count = count + 1
            end
         end
         assert.is_true(count > 30, count)
      end
   end)

   it("resizes the embeddings of the tokens, the layer of the logits and its bias", function()
      local ids = torch.tensor {{1, 5, 11}}
      for _, config in ipairs {
         {model_type = "gpt2", n_embd = 8, n_head = 2, n_layer = 1},
         {model_type = "llama", hidden_size = 8, intermediate_size = 8, num_hidden_layers = 1, num_attention_heads = 2},
         {model_type = "bert", hidden_size = 8, intermediate_size = 8, num_hidden_layers = 1, num_attention_heads = 2},
         {model_type = "bart", d_model = 8, encoder_layers = 1, decoder_layers = 1, encoder_attention_heads = 2,
            decoder_attention_heads = 2, encoder_ffn_dim = 8, decoder_ffn_dim = 8},
         {model_type = "gpt_neox", hidden_size = 8, intermediate_size = 8, num_hidden_layers = 1,
            num_attention_heads = 2, rotary_pct = 1.0},
      } do
         config.vocab_size, config.pad_token_id = 11, 1
         local model = text.from_config(config):eval()
         local output = model:get_output_embeddings()
         if output.bias then torch.no_grad(function() output.bias:normal_() end) end
         local function logits()
            return model(ids, {decoder_input_ids = config.model_type == "bart" and ids or nil}).logits
         end
         local before = logits()
         local is_tied = output.weight == model:get_input_embeddings().weight

         local input = model:resize_token_embeddings(13, {pad_to_multiple_of = 4})
         assert.equal(model:get_input_embeddings(), input)
         assert.same({16, 16}, {input.num_embeddings, model.config.vocab_size})
         output = model:get_output_embeddings()
         assert.equal(is_tied, output.weight == input.weight)
         -- a logit is linear in the weights and the bias, so the logits of new tokens are the mean of the old ones
         local after = logits()
         assert.is_true(after:narrow(3, 1, 11):allclose(before, {atol = 1e-6}))
         assert.is_true(after:narrow(3, 12, 5):allclose(before:mean(3, true):expand(1, 3, 5), {atol = 1e-6}))
         after:sum():backward()
         assert.same(input.weight.shape, input.weight.grad.shape)

         model:resize_token_embeddings(11)
         assert.is_true(logits():allclose(before, {atol = 1e-6}))
         local title = "models_spec.lua:%d+: text.PreTrainedModel.resize_token_embeddings: "
         assert.match(title .. "new_num_tokens: expected a count of at least 1, got 0",
            message_of(function() model:resize_token_embeddings(0) end))
         assert.match(title .. "pad_to_multiple_of", message_of(function()
            model:resize_token_embeddings(5, {pad_to_multiple_of = 0})
         end))
      end
      local vit = text.from_config {model_type = "vit", hidden_size = 8, intermediate_size = 8, num_hidden_layers = 1,
         num_attention_heads = 2, image_size = 32}
      assert.is_nil(vit:get_input_embeddings())
      assert.match("has no embedding of config.vocab_size tokens",
         message_of(function() vit:resize_token_embeddings(5) end))
   end)

   it("raises errors for invalid inputs at the user's line", function()
      local model = text.from_config(small)
      assert.match("models_spec.lua:%d+: text.GPT2LMHeadModel: input_ids: expected token numbers",
         message_of(function() model(torch.tensor {1, 2}) end))
      assert.match("attention_mask: expected a tensor of shape %(1, 2%)",
         message_of(function() model(torch.tensor {{1, 2}}, {attention_mask = torch.ones(1, 3)}) end))
      assert.match("labels: expected a tensor of shape",
         message_of(function() model(torch.tensor {{1, 2}}, {labels = torch.tensor {{1}}}) end))
      assert.match("at most n_positions = 16 tokens, got 17",
         message_of(function() model(torch.ones(1, 17, {dtype = "int64"})) end))
      assert.match("text.GPT2Model: labels: expected nil", message_of(function()
         local ids = torch.tensor {{1, 2}}
         text.from_config(small, {architecture = "Model"})(ids, {labels = ids})
      end))
      local llama = text.from_config {model_type = "llama", vocab_size = 11, hidden_size = 8, intermediate_size = 8,
         num_hidden_layers = 1, num_attention_heads = 2}
      assert.match("token_type_ids: expected nil, as the model has no types", message_of(function()
         llama(torch.tensor {{1, 2}}, {token_type_ids = torch.tensor {{1, 2}}})
      end))
      assert.match("position_ids: expected positions from 1, got %-1", message_of(function()
         llama(torch.tensor {{1, 2}}, {position_ids = torch.tensor {{-1, 2}}})
      end))
      assert.match("expected input_ids or inputs_embeds", message_of(function() model() end))
      for _, shape in ipairs {{1, 0}, {0, 3}} do
         assert.match("input_ids: expected at least one token", message_of(function()
            model(torch.zeros(shape, {dtype = "int64"}))
         end))
      end
      assert.match("unknown option mask", message_of(function() model(torch.tensor {{1}}, {mask = 1}) end))
   end)
end)
