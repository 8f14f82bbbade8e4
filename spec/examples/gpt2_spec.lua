-- Tests examples/gpt2.lua: compares its model with PyTorch's, and runs the program itself.

local shell = require "spec.support.shell"
local torch = require "tlua"
local expected = dofile "spec/fixtures/gpt2_loss.lua"
local GPT2 = dofile "examples/gpt2/model.lua"

local tlua = shell.start()

-- Returns the same model as spec/fixtures/gpt2_loss.py makes.
local function model(options)
   local o = {vocab = 64, context = 16, layers = 2, heads = 4, width = 32, dropout = 0.0}
   for key, value in pairs(options or {}) do o[key] = value end
   local net = GPT2(o)
   for name, p in net:named_parameters() do
      local phase = 0
      for i = 1, #name do phase = phase + name:byte(i) end
      local base = ("." .. name):find(".ln", 1, true) and name:find "weight$" and 1.0 or 0.0
      local i = torch.arange(p:numel(), {dtype = "float64"})
      torch.no_grad(function() p:copy_(((i * 0.7 + phase):sin() * 0.05 + base):reshape(p.shape)) end)
   end
   return net
end

local tokens = torch.arange(1000)
tokens = (tokens * tokens * 7 + tokens * 3):remainder(61) + 1

local function losses(net, steps, device, captured)
   net:to(device)
   local adam = torch.optim.AdamW(net:groups(0.1), {lr = 3e-3, betas = {0.9, 0.95}, capturable = device ~= "cpu"})
   local function train(x, y)
      adam:zero_grad()
      local loss = net(x, y)
      loss:backward()
      torch.nn.utils.clip_grad_norm_(net:parameters(), 1.0)
      adam:step()
      return loss:detach()
   end
   local example = torch.ones(4, 16, {dtype = "int64"})
   local step = captured and torch[device].capture_step(train, {example, example})
      or function(x, y) return train(x:to(device), y:to(device)) end
   local found = {}
   for at = 0, steps - 1 do
      local starts = torch.tensor {{at * 13 % 900}, {(at * 13 + 171) % 900},
         {(at * 13 + 342) % 900}, {(at * 13 + 513) % 900}}
      local places = starts + torch.arange(16) + 1
      found[at + 1] = step(tokens[places], tokens[places + 1]):item()
   end
   return found
end

describe("examples/gpt2", function()
   it("has the losses of PyTorch's model for 100 steps", function()
      local found = losses(model(), 100, "cpu")
      for i, loss in ipairs(expected) do assert.near(loss, found[i], 1e-3, "step " .. i) end
   end)

   it("has the same losses with activation checkpoints", function()
      assert.same(losses(model(), 5, "cpu"), losses(model {checkpoint = true}, 5, "cpu"))
   end)

   it("has the same bits if a device replays its steps", function()
      assert.same(losses(model(), 8, "sim"), losses(model(), 8, "sim", true))
   end)

   it("learns tokens from a text, trains, writes, and goes on from its checkpoint", shell.in_folder(function(folder)
      local function run(arguments)
         return shell.ok(("%s examples/gpt2.lua README.md --batch 2 --sample 8 --save %s %s"):format(
            tlua, shell.quote(folder .. "/gpt2"), arguments))
      end
      local output = run "--steps 4 --warmup 2"
      assert.matches("%d+ tokens of 512 kinds, 0.87M parameters\nstep 1  loss 6%.%d+", output)
      assert.matches("step 4  loss %d%.%d+", output)
      local at_once = run "--steps 6 --warmup 6":match "step 6  loss (%S+)"
      run "--steps 4 --warmup 6"
      local later = run("--steps 6 --warmup 6 --resume " .. shell.quote(folder .. "/gpt2"))
      assert.is_nil(later:match "step 4 ")
      assert.equal(at_once, later:match "step 6  loss (%S+)")
      assert.matches("step 3  loss", run "--steps 3 --accumulate 2 --dtype bfloat16 --checkpoint")
      assert.matches("step 5  loss", run "--steps 5 --device sim --dtype float16")
   end))

   it("trains on several processes as on one, and goes on from their checkpoint", shell.in_folder(function(folder)
      local id = shell.quote(folder .. "/checkpoint")
      local function run(processes, arguments)
         local output = shell.ok(("%s run -n %d examples/gpt2.lua README.md --batch 4 --sample 4 "
            .. "--accumulate 2 --warmup 2 --steps 3 --save %s %s"):format(
            shell.quote(shell.tlua), processes, id, arguments))
         return output:match "step 1  loss (%S+)", output:match "step 3  loss (%S+)"
      end
      local first, last = run(1, "--fsdp")
      assert.same({first, last}, {run(4, "--tp 2 --fsdp")})
      assert.not_equal(first, last)
      first, last = run(2, "--pp 2")
      assert.same({first, last}, {run(8, "--pp 2 --tp 2 --fsdp")})
      local later = shell.ok(("%s examples/gpt2.lua README.md --batch 4 --sample 4 --steps 4 " ..
         "--resume %s --save %s"):format(tlua, id, shell.quote(folder .. "/one")))
      assert.matches("step 4  loss %d", later)
      assert.is_nil(later:match "step 3 ")
   end))
end)
