-- Tests training that begins in PyTorch and continues in tlua, and the reverse. spec/fixtures/formats/training.py has
-- PyTorch's programs.

local torch = require "tlua"
local shell = require "spec.support.shell"

local optim, nn = torch.optim, torch.nn
local script <const> = "spec/fixtures/formats/training.py"

-- The options of the optimizers, which equal those in training.py.
local optimizers <const> = {
   SGD = {"SGD", {lr = 0.05, momentum = 0.9, dampening = 0.1}},
   Nesterov = {"SGD", {lr = 0.05, momentum = 0.9, nesterov = true}},
   Adam = {"Adam", {lr = 0.05, amsgrad = true}},
   AdamW = {"AdamW", {lr = 0.05, betas = {0.8, 0.9}}},
   Adagrad = {"Adagrad", {lr = 0.05, lr_decay = 0.1}},
   Adadelta = {"Adadelta", {lr = 0.5}},
   RMSprop = {"RMSprop", {lr = 0.01, momentum = 0.5, centered = true}},
   Rprop = {"Rprop", {lr = 0.01}},
   ASGD = {"ASGD", {lr = 0.05, t0 = 2}},
   NAdam = {"NAdam", {lr = 0.01}},
   RAdam = {"RAdam", {lr = 0.05}},
   Adamax = {"Adamax", {lr = 0.01}},
   Adafactor = {"Adafactor", {lr = 0.01}},
   LBFGS = {"LBFGS", {lr = 0.1, max_iter = 3, history_size = 2}},
}
local names <const> = {}
for name in pairs(optimizers) do names[#names + 1] = name end
table.sort(names)

-- Makes the model and the optimizer of training.py. With `plain`, the optimizer gets default options, which those of
-- the checkpoint must replace.
local function make(name, plain)
   local model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
   do
      local _ <close> = torch.no_grad()
      for _, p in ipairs(model:parameters()) do
         p:copy_((torch.arange(0, p:numel()):float():sin() * 0.5):view(p.shape))
      end
   end
   local class, options = table.unpack(optimizers[name])
   if plain then options = {} end
   if name == "LBFGS" then return model, optim.LBFGS(model:parameters(), options) end
   return model, optim[class]({
      {params = model[1]:parameters()},
      {params = model[3]:parameters(), lr = options.lr and options.lr / 2},
   }, options)
end

local function train(model, optimizer, steps)
   local x = torch.arange(0, 15):float():view(5, 3) / 10
   for _ = 1, steps do
      optimizer:step(function()
         optimizer:zero_grad()
         local loss = model(x):square():sum()
         loss:backward()
         return loss
      end)
   end
end

local function assert_same_weights(expected, model, what)
   local state = model:state_dict {names = "pytorch"}
   local count = 0
   for path, tensor in pairs(expected) do
      -- the results of six float32 steps differ, because the order of sums differs
      assert.close(tensor, state[path], 1e-5, what .. " " .. path)
      count = count + 1
   end
   assert.equal(4, count)
end

-- Continues in tlua a training that PyTorch has begun, from PyTorch's checkpoint.
local function check_begun(path, name)
   local checkpoint = torch.load(path)
   assert.equal(3, checkpoint.epoch)
   local model, optimizer = make(name, true)
   model:load_state_dict(checkpoint.model, {names = "pytorch"})
   optimizer:load_state_dict(checkpoint.optimizer, {names = "pytorch"})
   train(model, optimizer, 3)
   assert_same_weights(checkpoint["end"], model, name)
end

it("a training that PyTorch has begun continues in tlua with Adam, from a stored file", function()
   check_begun("spec/fixtures/formats/training.pt", "Adam")
end)

describe("a checkpoint of model, optimizer and epoch", function()
   local python = shell.python "import torch"

   it("goes from PyTorch to tlua and back with every optimizer", function()
      if not python then return pending "needs Python 3 with PyTorch; PYTHON names it" end
      shell.with_folder(function(folder)
         local run = ("%s %s %%s %s"):format(python, script, shell.quote(folder))
         shell.ok(run:format "begin")
         for _, name in ipairs(names) do check_begun(("%s/%s.pt"):format(folder, name), name) end

         local ends = {}
         for _, name in ipairs(names) do
            local model, optimizer = make(name)
            train(model, optimizer, 3)
            torch.save({
               model = model:state_dict {names = "pytorch"}, epoch = 3, history = {0.5, 0.25},
               optimizer = optimizer:state_dict {names = "pytorch"},
            }, ("%s/%s.own.pt"):format(folder, name))
            train(model, optimizer, 3)
            ends[name] = model
         end
         shell.ok(run:format "go_on")
         for _, name in ipairs(names) do
            assert_same_weights(torch.load(("%s/%s.end.pt"):format(folder, name)), ends[name], name)
         end
      end)
   end)
end)

describe("an optimizer's state with names = \"pytorch\"", function()
   it("counts positions from 0 and has PyTorch's options alone", function()
      local model, adam = make "Adam"
      train(model, adam, 1)
      local state = adam:state_dict {names = "pytorch"}
      assert.same({{0, 1}, {2, 3}}, {state.param_groups[1].params, state.param_groups[2].params})
      assert.equal(0.025, state.param_groups[2].lr)
      assert.is_nil(state.param_groups[1].master_weights)
      assert.equal("float32", state.state[0].step.dtype)
      assert.equal(1, state.state[3].step:item())
      assert.is_nil(state.state[4])
      assert.equal("float64", adam.state[1].step.dtype)
   end)

   it("is loaded like a state of tlua's own", function()
      local model, adam = make "AdamW"
      train(model, adam, 2)
      local again, other = make("AdamW", true)
      again:load_state_dict(model:state_dict())
      other:load_state_dict(adam:state_dict {names = "pytorch"})
      train(model, adam, 2)
      train(again, other, 2)
      assert.is_true(torch.equal(model[1].weight, again[1].weight))
      assert.equal("float64", other.state[1].step.dtype)
   end)

   it("keeps its kind where only later parameters have a state", function()
      local a, b = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
      local sgd = optim.SGD({a, b}, {lr = 0.1, momentum = 0.9})
      b.grad = torch.ones(1)
      sgd:step()
      local path = os.tmpname() .. ".pt"
      torch.save(sgd:state_dict {names = "pytorch"}, path)
      -- The text of a pickle. The opcodes } and q make and store a dictionary, and J reads its only key, 1.
      local dictionary <const> = "X\5\0\0\0stateq.}q.%(J\1\0\0\0"
      assert.truthy(shell.read(path):find(dictionary), "state is no dictionary")
      local loaded = torch.load(path)
      torch.save(loaded, path)
      assert.truthy(shell.read(path):find(dictionary), "state is no dictionary when saved anew")
      sgd:load_state_dict(loaded)
      assert.is_nil(sgd.state[1])
      assert.close(torch.ones(1), sgd.state[2].momentum_buffer, 0)
      os.remove(path)
   end)

   it("refuses other options", function()
      local _, sgd = make "SGD"
      assert.raises('state_dict: unknown option name; did you mean names?; there are names',
         function() sgd:state_dict {name = "pytorch"} end)
      assert.raises('optim.SGD.state_dict: names: expected "pytorch" or nil, got "torch"',
         function() sgd:state_dict {names = "torch"} end)
      assert.raises('optim.SGD.load_state_dict: options: expected a table, got "pytorch"',
         function() sgd:load_state_dict(sgd:state_dict(), "pytorch") end)
   end)
end)
