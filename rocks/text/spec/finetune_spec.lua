-- Tests torch.text.nf4 and torch.text.preference. The expected bytes and numbers come from bitsandbytes
-- (fixtures/nf4.py); the expected losses are computed in plain Lua with the papers' formulas.

local torch = require "tlua"
local json = require "tlua.utils.json"

local text, peft, nf4, preference = torch.text, torch.text.peft, torch.text.nf4, torch.text.preference

local function near(a, b, tolerance) assert.is_true(math.abs(a - b) <= (tolerance or 1e-6), a .. " and " .. b) end
local function largest(x) return x:detach():abs():max():item() end
local small = {model_type = "gpt2", vocab_size = 11, n_positions = 16, n_embd = 64, n_layer = 2, n_head = 2,
   resid_pdrop = 0.0, embd_pdrop = 0.0, attn_pdrop = 0.0}
local ids = torch.tensor {{3, 5, 7, 9}}

describe("nf4", function()
   it("has the bytes and the numbers of bitsandbytes", function()
      local file <close> = assert(io.open "rocks/text/spec/fixtures/nf4.json")
      local expected = json.decode(file:read "a")
      local list = {}
      for i = 0, 149 do list[i + 1] = math.sin(i) * i / 50 end
      local x = torch.tensor(list):view(10, 15)
      local packed, absmax = nf4.quantize(x)
      assert.same(expected.packed, packed:tolist())
      local values = nf4.dequantize(packed, absmax, {150})
      for i = 1, 3 do near(expected.absmax[i], absmax[i]:item()) end
      for i = 1, 150 do near(expected.values[i], values[i]:item()) end
   end)

   it("keeps zeros, and odd numbers of elements", function()
      local packed, absmax = nf4.quantize(torch.zeros(3))
      assert.same({0.0, 0.0, 0.0}, nf4.dequantize(packed, absmax, {3}):tolist())
      for _, n in ipairs {1, 63, 64, 65, 129} do
         local x = torch.linspace(-1, 1, n)
         local p, a = nf4.quantize(x)
         assert.equal((n + 1) // 2, p:numel())
         -- the bound is half of the widest gap between adjacent codes, which is from 0.723 to 1, plus a small margin
         assert.is_true(largest(nf4.dequantize(p, a, {n}) - x) <= 0.153)
      end
   end)

   it("refuses numbers that are not finite, and other sizes", function()
      assert.raises("text.nf4.quantize: x: expected finite numbers, got NaN or infinity",
         function() nf4.quantize(torch.tensor {0 / 0}) end)
      assert.raises("text.nf4.quantize: x: expected a tensor of floating-point numbers, not empty",
         function() nf4.quantize(torch.zeros(0)) end)
      assert.raises("text.nf4.dequantize: packed: expected 3 bytes",
         function() nf4.dequantize(torch.zeros(2):to "uint8", torch.zeros(1), {5}) end)
      assert.raises("text.nf4.dequantize: shape[1]: expected a size, got -1",
         function() nf4.dequantize(torch.zeros(2):to "uint8", torch.zeros(1), {-1}) end)
      assert.raises("text.nf4.Linear4bit: layer: expected a Linear or a Conv1D, got",
         function() nf4.Linear4bit(torch.nn.ReLU()) end)
   end)

   it("has layers whose results and gradients are those of the unpacked weight", function()
      torch.manual_seed(2)
      local linear = torch.nn.Linear(8, 3)
      local layer = nf4.Linear4bit(linear)
      local w = layer:dequantize()
      assert.is_true(largest(w - linear.weight) <= 0.16 * largest(linear.weight))
      local x, g = torch.randn(2, 4, 8):requires_grad_(), torch.randn(2, 4, 3)
      local y = layer(x)
      assert.is_true(largest(y - (x:matmul(w:t()) + linear.bias)) < 1e-6)
      y:backward(g)
      assert.is_true(largest(x.grad - g:matmul(w)) < 1e-6)
      assert.same({}, layer:parameters()[1].requires_grad and {1} or {})
      assert.equal("Linear4bit(8, 3, bias=true)", tostring(layer))
   end)

   it("trains adapters on rounded weights, and merges them", function()
      torch.manual_seed(1)
      local base = text.from_config(small):eval()
      local plain = base(ids).logits
      local _, count = nf4.load_in_4bit(base)
      assert.equal(8, count)
      local rounded = base(ids).logits
      assert.is_true(largest(rounded - plain) > 0 and largest(rounded - plain) < 0.5 * largest(plain))
      local model = peft.get_peft_model(base, {r = 4, target_modules = "all-linear"})
      assert.equal(16, #model:trainable_parameters())
      local adam = torch.optim.Adam(model:trainable_parameters(), {lr = 0.01})
      local first = model(ids, {labels = ids}).loss:item()
      for _ = 1, 60 do
         adam:zero_grad()
         model(ids, {labels = ids}).loss:backward()
         adam:step()
      end
      assert.is_true(model(ids, {labels = ids}).loss:item() < 0.6 * first)
      local tuned = model(ids).logits
      local merged = model:merge_and_unload()
      assert.is_true(largest(merged(ids).logits - tuned) < 1e-4 * largest(tuned))
      assert.equal("nn.Linear", torch.type(merged.transformer.h[1].attn.c_attn))
   end)

   it("leaves named layers as they are, and saves the bytes in the state", function()
      local model = text.from_config(small)
      local _, count = nf4.load_in_4bit(model, {skip_modules = {"mlp"}})
      assert.equal(4, count)
      assert.equal("text.models.Conv1D", torch.type(model.transformer.h[1].mlp.c_fc))
      local other = nf4.load_in_4bit(text.from_config(small), {skip_modules = {"mlp"}})
      other:load_state_dict(model:state_dict())
      assert.is_true(torch.equal(other:eval()(ids).logits, model:eval()(ids).logits))
      assert.raises("text.nf4.load_in_4bit: model: expected linear layers, got none in nn.ReLU",
         function() nf4.load_in_4bit(torch.nn.ReLU()) end)
   end)
end)

describe("preference", function()
   it("sums the logarithms of the labels' probabilities", function()
      torch.manual_seed(4)
      local logits = torch.randn(2, 4, 5)
      local labels = torch.tensor {{2, -100, 3, 5}, {1, 1, 4, -100}}
      local logs = logits:log_softmax(3)
      local function log(row, step, token) return logs[row][step][token]:item() end
      local sums = preference.sequence_logps(logits, labels)
      near(log(1, 2, 3) + log(1, 3, 5), sums[1]:item())
      near(log(2, 1, 1) + log(2, 2, 4), sums[2]:item())
      near(sums[2]:item() / 2, preference.sequence_logps(logits, labels, {average = true})[2]:item())
      assert.raises("labels: expected a label in each row after the first column, got a row of -100",
         function() preference.sequence_logps(logits, torch.tensor {{1, -100, -100, -100}, {1, 2, 3, 4}}) end)
      assert.raises("labels: expected token numbers of shape (2, 4)",
         function() preference.sequence_logps(logits, torch.ones(2, 3):long()) end)
   end)

   local chosen, rejected = {-1.5, -3.0, -0.2}, {-2.0, -2.5, -4.0}
   local old_chosen, old_rejected = {-1.0, -3.5, -1.0}, {-2.2, -2.4, -3.0}
   local function loss(options, requires_grad)
      local policy = torch.tensor(chosen)
      if requires_grad then policy:requires_grad_() end
      local losses, good, bad = preference.dpo_loss(policy, torch.tensor(rejected), torch.tensor(old_chosen),
         torch.tensor(old_rejected), options)
      return losses, good, bad, policy
   end
   local function margin(i) return chosen[i] - rejected[i] - (old_chosen[i] - old_rejected[i]) end
   local function log_sigmoid(x) return -math.log(1 + math.exp(-x)) end

   it("has the losses of the papers", function()
      for i = 1, 3 do
         near(-log_sigmoid(0.1 * margin(i)), loss()[i]:item())
         near(-0.9 * log_sigmoid(0.3 * margin(i)) - 0.1 * log_sigmoid(-0.3 * margin(i)),
            loss({beta = 0.3, label_smoothing = 0.1})[i]:item())
         near(math.max(0, 1 - 2 * margin(i)), loss({beta = 2, loss_type = "hinge"})[i]:item(), 1e-5)
         near((margin(i) - 1 / (2 * 0.5)) ^ 2, loss({beta = 0.5, loss_type = "ipo"})[i]:item(), 1e-5)
      end
      local losses, good, bad, policy = loss({beta = 0.5}, true)
      near(0.5 * (chosen[1] - old_chosen[1]), good[1]:item())
      near(0.5 * (rejected[3] - old_rejected[3]), bad[3]:item())
      assert.is_false(good.requires_grad)
      losses:sum():backward()
      for i = 1, 3 do near(-0.5 / (1 + math.exp(0.5 * margin(i))), policy.grad[i]:item()) end
   end)

   it("refuses wrong arguments of the loss", function()
      local x = torch.zeros(3)
      assert.raises('text.preference.dpo_loss: loss_type: expected "sigmoid", "hinge" or "ipo", got "kto"',
         function() preference.dpo_loss(x, x, x, x, {loss_type = "kto"}) end)
      assert.raises("beta: expected a positive number, got 0",
         function() preference.dpo_loss(x, x, x, x, {beta = 0}) end)
      assert.raises("label_smoothing: expected a number from 0 to below 0.5, got 0.5",
         function() preference.dpo_loss(x, x, x, x, {label_smoothing = 0.5}) end)
      assert.raises("reference_chosen_logps: expected 3 logarithms of probabilities",
         function() preference.dpo_loss(x, x, torch.zeros(2), x) end)
   end)

   it("trains adapters to prefer answers, with the model without adapters as the reference", function()
      torch.manual_seed(7)
      local model = peft.get_peft_model(text.from_config(small), {r = 4, target_modules = "all-linear"})
      local good = {input_ids = torch.tensor {{3, 5, 7, 9}}, labels = torch.tensor {{-100, -100, 7, 9}}}
      local bad = {input_ids = torch.tensor {{3, 5, 8, 2}}, labels = torch.tensor {{-100, -100, 8, 2}}}
      local first, metrics = preference.dpo(model, good, bad, {beta = 0.5})
      near(math.log(2), first:item())
      assert.same({chosen_reward = 0.0, rejected_reward = 0.0, accuracy = 0.0}, metrics)
      local adam = torch.optim.Adam(model:trainable_parameters(), {lr = 0.02})
      for _ = 1, 20 do
         adam:zero_grad()
         preference.dpo(model, good, bad, {beta = 0.5}):backward()
         adam:step()
      end
      local last, after = preference.dpo(model, good, bad, {beta = 0.5})
      assert.is_true(last:item() < 0.2 and after.accuracy == 1 and after.chosen_reward > after.rejected_reward)
      local reference = text.from_config(small)
      local with_reference = preference.dpo(reference, good, bad, {reference = reference})
      near(math.log(2), with_reference:item())
      assert.raises("text.preference.dpo: reference: expected a model, since the trained one has no adapters, got nil",
         function() preference.dpo(reference, good, bad) end)
      assert.raises("text.preference.dpo: rejected: expected a table with input_ids, labels",
         function() preference.dpo(model, good, bad.input_ids) end)
   end)

   it("packs texts into rows", function()
      assert.same({{5, 6, 1, 7}, {8, 9, 1, 2}}, preference.pack({{5, 6}, {7, 8, 9}, {2}}, 4, 1):tolist())
      assert.raises("text.preference.pack: texts[2][1]: expected a token number from 1, got 0",
         function() preference.pack({{5}, {0}}, 2, 1) end)
      assert.raises("length: expected at most the 2 tokens of all texts, got 3",
         function() preference.pack({{5}}, 3, 1) end)
   end)
end)

