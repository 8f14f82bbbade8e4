-- Tests torch.text.peft's virtual tokens: adapters that PEFT has saved must give PEFT's logits, gradients and tokens,
-- and virtual tokens must be trained, saved and loaded. fixtures/prompts.py has written the fixtures. With
-- TLUA_PROMPTS=FOLDER, this spec saves the adapters again in FOLDER, and fixtures/prompts.py checks them.

local torch = require "tlua"
local device = require "spec.support.device"
local json = require "tlua.utils.json"
local waves = dofile "rocks/text/spec/waves.lua"

local text, peft = torch.text, torch.text.peft

local cases <const> = {
   prefix = "llama2", prefix_projected = "gpt2", prompt = "gpt2", prompt_gemma = "gemma2", p_tuning = "mistral",
   p_tuning_lstm = "gpt_neox", prefix_sliding = "mistral",
}

local function read_rows()
   local file <close> = assert(io.open "rocks/text/spec/fixtures/models.json")
   return assert(json.decode(file:read "a"))
end
local rows = read_rows()

local function folder_of(name) return "rocks/text/spec/fixtures/prompts/" .. name end

local small = {model_type = "gpt2", vocab_size = 11, n_positions = 40, n_embd = 8, n_layer = 2, n_head = 2,
   resid_pdrop = 0.0, embd_pdrop = 0.0, attn_pdrop = 0.0}

local function message_of(fn, ...)
   local ok, message = pcall(fn, ...)
   assert.is_false(ok)
   return tostring(message)
end

local function largest(x) return x:detach():abs():max():item() end

-- Returns the model's results for the fixture's padded batch.
local function results_of(model, expected)
   local ids, mask = expected.ids + 1, expected.mask
   return model(ids, {attention_mask = mask, labels = torch.where(mask:gt(0), ids, -100)})
end

describe("virtual tokens", function()
   local own = os.getenv "TLUA_PROMPTS" or os.tmpname()
   os.remove(own)
   torch.io.make_folder(own)
   teardown(function()
      if not os.getenv "TLUA_PROMPTS" then os.execute("rm -rf '" .. own .. "'") end
   end)

   for name, kind in pairs(cases) do
      it("have the logits and the tokens that they have in PEFT: " .. name, function()
         local expected = device.moved(torch.load(folder_of(name) .. "/expected.safetensors"))
         local model = peft.from_pretrained(waves.model(rows[kind]), folder_of(name))
         local results = results_of(model, expected)
         assert.is_true(largest(results.logits - expected.logits) < 1e-4, largest(results.logits - expected.logits))
         assert.is_true(math.abs(results.loss:item() - expected.loss:item()) < 1e-4)
         assert.same({}, model:trainable_parameters())
         local given = expected.ids:narrow(1, 2, 1) + 1
         for _, options in ipairs {{}, {use_cache = false}, {cache = "static"}, {prompt_lookup_num_tokens = 2}} do
            options.max_new_tokens, options.eos_token_id = 8, {}
            assert.same((expected.greedy + 1):tolist(), model:generate(given, options):tolist())
         end
         local plain = waves.model(rows[kind])(given).logits
         assert.is_true(largest(plain - model(given).logits:narrow(2, -6, 6)) > 1e-3)
         assert.is_true(torch.equal(plain, model:disable_adapter(function() return model(given).logits end)))
         assert.is_true(torch.equal(plain, model:unload()(given).logits))
         model:save_pretrained(own .. "/" .. name)
         torch.save({logits = results.logits:detach():contiguous()}, own .. "/" .. name .. "/expected.safetensors")
      end)

      it("have the gradients that they have in PEFT: " .. name, function()
         local expected = device.moved(torch.load(folder_of(name) .. "/expected.safetensors"))
         local file <close> = assert(io.open(folder_of(name) .. "/adapter_config.json"))
         local given, options = json.decode(file:read "a"), {}
         for _, key in ipairs {"peft_type", "num_virtual_tokens", "prefix_projection", "encoder_hidden_size",
               "encoder_reparameterization_type"} do
            options[key] = given[key]
         end
         local model = peft.get_peft_model(waves.model(rows[kind]), options)
         local state = {}
         for key, value in pairs(expected) do state[key:match "^encoder%.(.*)" or ""] = value end
         state[""] = nil
         model.prompt_encoder:load_state_dict(state, {names = "pytorch"})
         local results = results_of(model, expected)
         assert.is_true(largest(results.logits - expected.logits) < 1e-4)
         results.loss:backward()
         local total = 0
         for _, p in ipairs(model:parameters()) do
            if p.grad then total = total + p.grad:double():abs():sum():item() end
         end
         local wanted = expected.gradients:item()
         assert.is_true(wanted > 0 and math.abs(total - wanted) < 2e-4 * wanted, ("%g, %g"):format(total, wanted))
      end)
   end

   it("train alone, and are loaded for further training", function()
      for _, options in ipairs {{peft_type = "PREFIX_TUNING"}, {peft_type = "PREFIX_TUNING", prefix_projection = true},
            {peft_type = "PROMPT_TUNING"}, {peft_type = "PROMPT_TUNING", prompt_tuning_init = "SAMPLE_VOCAB"},
            {peft_type = "P_TUNING"}, {peft_type = "P_TUNING", encoder_reparameterization_type = "LSTM"}} do
         torch.manual_seed(1)
         options.num_virtual_tokens = 3
         local base = text.from_config(small)
         local before = {}
         for key, value in pairs(base:state_dict()) do before[key] = value:clone() end
         local model = peft.get_peft_model(base, options)
         local ids = torch.tensor {{3, 5, 7, 9}}
         local first = model(ids, {labels = ids}).loss:item()
         local adam = torch.optim.Adam(model:trainable_parameters(), {lr = 0.02})
         for _ = 1, 20 do
            adam:zero_grad()
            model(ids, {labels = ids}).loss:backward()
            adam:step()
         end
         local last = model:eval()(ids, {labels = ids}).loss:item()
         assert.is_true(last < first, ("%g, %g"):format(last, first))
         for key, value in pairs(base:state_dict()) do assert.is_true(torch.equal(value, before[key])) end
         model:save_pretrained(own .. "/trained")
         local again = peft.from_pretrained(base, own .. "/trained")
         assert.is_true(largest(model(ids).logits - again(ids).logits) < 1e-6)
         if options.peft_type == "P_TUNING" or options.prefix_projection then
            assert.match("is_trainable: .* has the virtual tokens, but not the network", message_of(
               peft.from_pretrained, base, own .. "/trained", {is_trainable = true}))
         else
            again = peft.from_pretrained(base, own .. "/trained", {is_trainable = true})
            assert.equal(1, #again:trainable_parameters())
         end
      end
   end)

   it("start as the embeddings of a text or of random tokens, or as zeros", function()
      local base = text.from_config(small)
      local tokenizer = {encode = function() return {ids = {4, 2}} end}
      local model = peft.get_peft_model(base, {peft_type = "PROMPT_TUNING", num_virtual_tokens = 3,
         prompt_tuning_init = "TEXT", prompt_tuning_init_text = "ab", tokenizer = tokenizer})
      local words = base.transformer.wte.weight
      assert.is_true(torch.equal(model.prompt_encoder.embedding.weight, words[torch.tensor {4, 2, 4}]))
      model:save_pretrained(own .. "/text")
      model = peft.get_peft_model(base, {peft_type = "PROMPT_TUNING", num_virtual_tokens = 2,
         prompt_tuning_init = "SAMPLE_VOCAB"})
      for i = 1, 2 do
         local row = model.prompt_encoder.embedding.weight[i]
         assert.is_true((words - row):abs():sum(2):eq(0):any():item())
      end
      for _, projection in ipairs {false, true} do
         model = peft.get_peft_model(base, {peft_type = "PREFIX_TUNING", num_virtual_tokens = 2, init_weights = "zero",
            prefix_projection = projection})
         assert.equal(0, largest(model.prompt_encoder()))
      end
   end)

   it("train on pairs of answers, with the model without them as the reference", function()
      local chosen = {input_ids = torch.tensor {{3, 5, 7}}, labels = torch.tensor {{-100, 5, 7}}}
      local rejected = {input_ids = torch.tensor {{3, 9, 2}}, labels = torch.tensor {{-100, 9, 2}}}
      for _, kind in ipairs {"PREFIX_TUNING", "PROMPT_TUNING"} do
         local config = {initializer_range = 0.3}
         for key, value in pairs(small) do config[key] = value end
         torch.manual_seed(2)
         local model = peft.get_peft_model(text.from_config(config), {peft_type = kind, num_virtual_tokens = 2})
         local adam = torch.optim.Adam(model:trainable_parameters(), {lr = 0.1})
         local first, last
         for _ = 1, 15 do
            adam:zero_grad()
            last = text.preference.dpo(model, chosen, rejected)
            first = first or last:item()
            last:backward()
            adam:step()
         end
         assert.is_true(last:item() < first - 0.01, ("%g, %g"):format(first, last:item()))
      end
   end)

   it("are in all searches", function()
      local model = peft.get_peft_model(text.from_config(small):eval(), {peft_type = "PREFIX_TUNING",
         num_virtual_tokens = 4})
      local ids, mask = torch.tensor {{1, 5, 7}, {2, 9, 4}}, torch.tensor {{0, 1, 1}, {1, 1, 1}}
      for _, options in ipairs {{num_beams = 3}, {penalty_alpha = 0.5, top_k = 3},
            {do_sample = true, generator = torch.Generator():manual_seed(1)}} do
         options.max_new_tokens, options.eos_token_id, options.attention_mask = 5, {}, mask
         assert.same({2, 8}, model:generate(ids, options).shape)
      end
      local beams = {num_beams = 3, max_new_tokens = 5, eos_token_id = {}, attention_mask = mask}
      local expected = model:generate(ids, beams):tolist()
      beams.use_cache = false
      assert.same(expected, model:generate(ids, beams):tolist())
   end)

   it("refuse options, models and files that do not fit", function()
      local base = text.from_config(small)
      local function refused(expected, options, model)
         options.peft_type = options.peft_type or "PREFIX_TUNING"
         assert.match(expected, message_of(peft.get_peft_model, model or base, options))
      end
      refused("num_virtual_tokens: expected a positive integer, got nil", {})
      refused("num_virtual_tokens: expected a positive integer, got 0", {num_virtual_tokens = 0})
      refused("unknown option prefix_projektion", {num_virtual_tokens = 2, prefix_projektion = true})
      refused("unknown option prompt_tuning_init", {num_virtual_tokens = 2, prompt_tuning_init = "RANDOM"})
      refused('init_weights: expected "zero" or nil, got "ones"', {num_virtual_tokens = 2, init_weights = "ones"})
      refused('task_type: expected "CAUSAL_LM", got "SEQ_CLS"', {num_virtual_tokens = 2, task_type = "SEQ_CLS"})
      refused('prompt_tuning_init: expected "RANDOM", "SAMPLE_VOCAB" or "TEXT", got "ALL"',
         {peft_type = "PROMPT_TUNING", num_virtual_tokens = 2, prompt_tuning_init = "ALL"})
      refused("prompt_tuning_init_text: expected a text, got nil",
         {peft_type = "PROMPT_TUNING", num_virtual_tokens = 2, prompt_tuning_init = "TEXT"})
      refused('peft_type: expected "LORA", "PREFIX_TUNING"', {peft_type = "IA3"})
      refused("model: expected a decoder with a language model's head for PREFIX_TUNING", {num_virtual_tokens = 2},
         text.from_config {model_type = "t5", d_model = 8, d_kv = 4, d_ff = 8, num_layers = 1, num_heads = 2})
      refused("model: expected a decoder with a language model's head for PREFIX_TUNING", {num_virtual_tokens = 2},
         peft.get_peft_model(base, {peft_type = "PROMPT_TUNING", num_virtual_tokens = 2}))
      peft.get_peft_model(base, {peft_type = "PROMPT_TUNING", num_virtual_tokens = 2}):save_pretrained(own .. "/bad")
      torch.save({prompt_embeddings = torch.zeros(2, 12)}, own .. "/bad/adapter_model.safetensors")
      assert.match("prompt_embeddings: expected shape %(2, 8%), got %(2, 12%)",
         message_of(peft.from_pretrained, base, own .. "/bad"))
      local fresh = text.from_config(small)
      message_of(peft.from_pretrained, fresh, own .. "/bad")
      for _, p in ipairs(fresh:parameters()) do assert.is_true(p.requires_grad) end
      torch.save({other = torch.zeros(2, 12)}, own .. "/bad/adapter_model.safetensors")
      assert.match("prompt_embeddings: expected shape %(2, 8%), got none",
         message_of(peft.from_pretrained, base, own .. "/bad"))
   end)
end)
