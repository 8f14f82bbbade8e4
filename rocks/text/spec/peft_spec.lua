-- Tests torch.text.peft: adapters that PEFT has written must give PEFT's outputs, and adapters must be trained, saved,
-- loaded and merged. fixtures/adapter.py has written the fixture.

local torch = require "tlua"
local device = require "spec.support.device"
local json = require "tlua.utils.json"
local waves = dofile "rocks/text/spec/waves.lua"

local text, peft = torch.text, torch.text.peft

local folder <const> = "rocks/text/spec/fixtures/adapter"
local ids = torch.tensor {{3, 5, 7, 9}}
local small = {model_type = "gpt2", vocab_size = 11, n_positions = 16, n_embd = 8, n_layer = 2, n_head = 2,
   resid_pdrop = 0.0, embd_pdrop = 0.0, attn_pdrop = 0.0}

local function llama()
   local file <close> = assert(io.open "rocks/text/spec/fixtures/models.json")
   return waves.model(json.decode(file:read "a").llama2)
end

local function message_of(fn, ...)
   local ok, message = pcall(fn, ...)
   assert.is_false(ok)
   return tostring(message)
end

local function largest(x) return x:detach():abs():max():item() end

describe("peft", function()
   local own = os.tmpname()
   os.remove(own)
   teardown(function() os.execute("rm -rf '" .. own .. "'") end)

   it("computes with PEFT's adapters, and merges them", function()
      local expected = device.moved(torch.load(folder .. "/expected.safetensors")).logits
      local model = peft.from_pretrained(llama(), folder)
      assert.is_true(largest(model(ids).logits - expected) < 1e-4)
      assert.same({}, model:trainable_parameters())
      local plain = llama()(ids).logits
      assert.is_true(largest(plain - expected) > 1e-2)
      assert.is_true(torch.equal(plain, model:disable_adapter(function() return model(ids).logits end)))
      local merged = model:merge_and_unload()
      assert.equal("nn.Linear", torch.type(merged.model.layers[1].mlp.down_proj))
      assert.is_true(largest(merged(ids).logits - expected) < 1e-4)
   end)

   it("trains only adapters, and saves and loads them", function()
      torch.manual_seed(1)
      local base = text.from_config(small)
      local weights = base:state_dict()
      local before = {}
      for key, value in pairs(weights) do before[key] = value:clone() end
      local model = peft.get_peft_model(base, {r = 2, lora_alpha = 4, target_modules = {"c_attn", "c_fc"}})
      assert.equal(8, #model:trainable_parameters())
      local first = model(ids, {labels = ids}).loss:item()
      local adam = torch.optim.Adam(model:trainable_parameters(), {lr = 0.05})
      for _ = 1, 20 do
         adam:zero_grad()
         model(ids, {labels = ids}).loss:backward()
         adam:step()
      end
      model:eval()
      assert.is_true(model(ids, {labels = ids}).loss:item() < first - 0.1)
      for key, value in pairs(before) do assert.is_true(torch.equal(value, weights[key]), key) end
      model:save_pretrained(own)
      local other = text.from_config(small)
      other:load_state_dict(before)
      local again = peft.from_pretrained(other:eval(), own)
      assert.is_true(torch.equal(model(ids).logits, again(ids).logits))
      local options = {max_new_tokens = 3}
      assert.same(model:generate(ids, options):tolist(), again:generate(ids, options):tolist())
      assert.is_true(largest(again:merge_and_unload()(ids).logits - model(ids).logits) < 1e-5)
   end)

   it("counts layers by the last number of a path, or by layers_pattern", function()
      local function adapted(options)
         options.r = 2
         local base, names = text.from_config {model_type = "t5", vocab_size = 12, d_model = 8, d_kv = 4, d_ff = 8,
            num_layers = 2, num_heads = 2, decoder_start_token_id = 0}, {}
         peft.get_peft_model(base, options)
         for path, layer in base:named_modules() do
            if torch.type(layer) == "text.peft.LoraLinear" then names[#names + 1] = path end
         end
         table.sort(names)
         return names
      end
      -- In a block of T5's decoder, layer.1 of PyTorch, which is layer.2 in Lua, is the attention to the encoder's
      -- output.
      assert.same({"decoder.block.1.layer.2.EncDecAttention.q", "decoder.block.2.layer.2.EncDecAttention.q"},
         adapted {target_modules = {"q"}, layers_to_transform = 1})
      assert.same({"decoder.block.2.layer.1.SelfAttention.q", "decoder.block.2.layer.2.EncDecAttention.q",
         "encoder.block.2.layer.1.SelfAttention.q"},
         adapted {target_modules = {"q"}, layers_to_transform = {1}, layers_pattern = "block"})
      assert.match("layers_pattern: expected none without layers_to_transform", message_of(peft.get_peft_model,
         text.from_config(small), {layers_pattern = "h"}))
   end)

   it("restores the mode of each module after generating", function()
      local base = text.from_config(small)
      local model = peft.get_peft_model(base, {r = 2}):train()
      base.transformer.h[1]:eval()
      model:generate(ids, {max_new_tokens = 1})
      assert.same({true, false, true}, {model.training, base.transformer.h[1].attn.training,
         base.transformer.h[2].attn.training})
   end)

   it("initializes adapters as PEFT does, or not at all", function()
      local function second(init)
         local base = text.from_config(small)
         local model = peft.get_peft_model(base, {r = 2, init_lora_weights = init})
         return largest(base.transformer.h[1].attn.c_attn.lora_B.weight), model
      end
      assert.equal(0, (second(true)))
      -- Without an initialization of the adapter, B is random, as the weight of any linear layer. So the adapter
      -- changes the result.
      assert.is_true(second(false) > 0)
      local zero, model = second "gaussian"
      assert.equal(0, zero)
      model:save_pretrained(own)
      assert.equal("gaussian", peft.from_pretrained(text.from_config(small), own).peft_config.init_lora_weights)
   end)

   it("leaves a model as it was if it cannot get adapters", function()
      local base = text.from_config(small)
      message_of(peft.get_peft_model, base, {target_modules = {"c_atn"}})
      for _, p in ipairs(base:parameters()) do assert.is_true(p.requires_grad) end
   end)

   it("raises errors that name the field that does not fit", function()
      local function get(options) return message_of(peft.get_peft_model, text.from_config(small), options) end
      assert.match("unknown option rank", get {rank = 3})
      assert.match('no linear layer of text.GPT2LMHeadModel has a name such as "c_atn"; did you mean c_attn',
         get {target_modules = {"c_atn"}})
      assert.match("expected linear layers, got transformer.wte, an instance of nn.Embedding",
         get {target_modules = {"wte"}})
      assert.match("r: expected a positive integer, got 0", get {r = 0})
      assert.match("use_dora: expected false", get {use_dora = true})
      assert.match("lora_alpha: expected a finite number, got %-?nan", get {lora_alpha = 0 / 0})
      assert.match("rank_pattern: c_attn: expected a positive integer, got 0", get {rank_pattern = {c_attn = 0}})
      assert.match("alpha_pattern: several names with different values fit transformer.h.0.attn.c_attn",
         get {alpha_pattern = {c_attn = 3, ["attn.c_attn"] = 4}})
      assert.match('modules_to_save: no layer of text.GPT2LMHeadModel has a name such as "lm_hed"; did you mean',
         get {modules_to_save = {"lm_hed"}})
      assert.match('init_lora_weights: expected true, false or "gaussian", got "pissa"',
         get {init_lora_weights = "pissa"})
      local adapted = text.from_config(small)
      peft.get_peft_model(adapted, {target_modules = "all-linear"})
      assert.match("model: expected a model without adapters", message_of(peft.get_peft_model, adapted,
         {target_modules = "all-linear"}))
      assert.match("no linear layer of text.GPT2LMHeadModel", message_of(peft.from_pretrained,
         text.from_config(small), folder))
      local deeper = {model_type = "llama", vocab_size = 37, hidden_size = 16, intermediate_size = 20,
         num_attention_heads = 4, num_hidden_layers = 1}
      local message = message_of(peft.from_pretrained, text.from_config(deeper), folder)
      assert.match("layers.0.mlp.down_proj.lora_A.weight: expected shape %(2, 20%), got %(2, 24%)", message)
      assert.match("unexpected: base_model.model.model.layers.1.mlp.down_proj.lora_A.weight", message)
      assert.match("No such file", message_of(peft.from_pretrained, text.from_config(small), "/nowhere"))
   end)
end)
