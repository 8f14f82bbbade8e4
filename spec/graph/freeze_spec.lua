-- Tests torch.freeze. spec/embed/freeze.c counts how often its calls allocate memory and take locks.

local torch = require "tlua"
local nn = torch.nn

-- Checks that fn raises an error whose message matches.
local function fails(message, fn, ...)
   local arguments = table.pack(...)
   assert.error_matches(function() fn(table.unpack(arguments, 1, arguments.n)) end, message)
end

local function two_results(a, b) return a + b, a end

describe("torch.freeze", function()
   it("gives the bits of the model, in tensors that the next call overwrites", function()
      local model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3)):eval()
      local frozen = torch.freeze(model)
      local first
      for _ = 1, 5 do
         local x = torch.randn(2, 4)
         local y = frozen(x)
         assert.is_true(y:equal(model(x)))
         first = first or y
         assert.is_true(rawequal(first, y))
      end
   end)

   it("draws the random numbers of the model, from the first call on", function()
      local function noise(x) return x + torch.rand(2) end
      local frozen, x = torch.freeze(noise), torch.zeros(2)
      torch.manual_seed(3)
      local expected = {noise(x), noise(x), noise(x)}
      torch.manual_seed(3)
      for i = 1, 3 do assert.same(expected[i]:tolist(), frozen(x):tolist()) end
   end)

   it("takes and returns tables of tensors", function()
      local cell, lstm = nn.LSTMCell(3, 4):eval(), nn.LSTM(3, 4):eval()
      local frozen = torch.freeze(cell)
      local h, c = torch.zeros(1, 4), torch.zeros(1, 4)
      for _ = 1, 4 do
         local x = torch.randn(1, 3)
         local expected_h, expected_c = cell(x, {h, c})
         h, c = frozen(x, {h:clone(), c:clone()})
         assert.is_true(h:equal(expected_h) and c:equal(expected_c))
      end
      local whole, x = torch.freeze(lstm), torch.randn(5, 1, 3)
      for _ = 1, 3 do
         local y, state = whole(x)
         local expected, last = lstm(x)
         assert.is_true(y:equal(expected) and state[1]:equal(last[1]) and state[2]:equal(last[2]))
      end
   end)

   it("takes its results as inputs, also where a result is an input itself", function()
      local frozen = torch.freeze(two_results)
      local a, b = torch.tensor {1.}, torch.tensor {2.}
      local seen = {}
      for i = 1, 5 do
         a, b = frozen(a, b)
         seen[i] = ("%d %d"):format(a:item(), b:item())
      end
      assert.same({"3 1", "4 3", "7 4", "11 7", "18 11"}, seen)
      local turned = torch.freeze(function(x) return x:t() end)
      local x = torch.tensor {{1., 2.}, {3., 4.}}
      x = turned(x)
      for _ = 1, 2 do x = turned(x) end
      assert.same({{1, 3}, {2, 4}}, x:tolist())
   end)

   it("sees new values of parameters, but not another attribute", function()
      local model = nn.Linear(2, 2):eval()
      local frozen, x = torch.freeze(model), torch.randn(1, 2)
      frozen(x)
      local _ <close> = torch.no_grad()
      model.weight:mul_(2)
      assert.is_true(frozen(x):equal(model(x)))
   end)

   it("freezes a program, and a training step that was loaded", function()
      local program = torch.export(nn.ReLU(), {torch.randn(3)})
      assert.same({0, 2, 0}, torch.freeze(program)(torch.tensor {-1., 2, -3}):tolist())
      local model = nn.Linear(2, 1)
      local optimizer = torch.optim.SGD(model:parameters(), {lr = 0.1})
      local x, y = torch.randn(8, 2), torch.randn(8, 1)
      local function step(input, target)
         optimizer:zero_grad()
         local loss = nn.functional.mse_loss(model(input), target)
         loss:backward()
         optimizer:step()
         return loss:detach()
      end
      local exported = torch.export_step(step, {x, y}, {model = model, optimizer = optimizer})
      fails("freeze: model: the step follows its model and optimizer in this script",
         function() torch.freeze(exported) end)
      local path = os.tmpname()
      exported:save(path)
      local frozen = torch.freeze(torch.export.load(path))
      os.remove(path)
      for _ = 1, 5 do assert.equal(step(x, y):item(), frozen(x, y):item()) end
   end)

   it("refuses other inputs than those of the first call", function()
      local frozen, x = torch.freeze(two_results), torch.ones(2)
      frozen(x, x)
      local function refuses(message, ...) fails(message, frozen, ...) end
      refuses("a: expected size 2 in dimension 1, as in the exported call, got sizes %[3%]", torch.ones(3), x)
      refuses("b: expected dtype float32", x, torch.tensor {1, 2})
      refuses("freeze: expected 2 arguments, as in the first call, got 1", x)
      refuses("freeze: argument 2: expected a tensor, got 3", x, 3)
      refuses("freeze: argument 1: expected a tensor, got a table", {x}, x)
      refuses("freeze: argument 1: expected a tensor, got nil", nil, x)
      assert.same({2, 2}, frozen(x, x):tolist())
      local cell = torch.freeze(nn.LSTMCell(2, 2):eval())
      cell(torch.ones(1, 2), {torch.ones(1, 2), torch.ones(1, 2)})
      fails("freeze: argument 2: expected a table of tensors, as in the first call, got a",
         function() cell(torch.ones(1, 2), torch.ones(1, 2)) end)
      fails("freeze: argument 2: expected a tensor, got nil",
         function() cell(torch.ones(1, 2), {torch.ones(1, 2)}) end)
   end)

   it("names the input whose dynamic size differs from that of the first call", function()
      local program = torch.export(nn.Linear(2, 3):eval(), {torch.ones(4, 2)}, {dynamic = {input = {1}}})
      local frozen = torch.freeze(program)
      frozen(torch.ones(4, 2))
      fails("freeze: input: expected size 4 in dimension 1, as in the first call, .* got 5", frozen, torch.ones(5, 2))
      fails("program: input: expected size 2 in dimension 2", frozen, torch.ones(5, 3))
      assert.same({4, 3}, {table.unpack(frozen(torch.ones(4, 2)).shape)})
      -- The size of the result does not depend on the size of the input, which is dynamic. So the frozen function takes
      -- inputs of all sizes.
      local total = torch.freeze(torch.export(function(x) return x:sum() end, {torch.ones(4)}, {
         names = {"x"}, dynamic = {x = {1}},
      }))
      assert.same({4, 7}, {total(torch.ones(4)):item(), total(torch.ones(7)):item()})
   end)

   it("refuses a model in training mode, and other values", function()
      fails("freeze: model: expected a module in evaluation mode; call model:eval%(%)",
         function() torch.freeze(nn.Dropout(0.5)) end)
      fails("freeze: model: expected a module, a function or a program, got 3",
         function() torch.freeze(3) end)
      fails("torch.export does not record a program that a model calls", function()
         local frozen = torch.freeze(nn.ReLU():eval())
         frozen(torch.ones(2))
         torch.export(function(x) return frozen(x) end, {torch.ones(2)})
      end)
   end)

   it("can be called again after a call that failed", function()
      local frozen = torch.freeze(function(x) return x:sqrt() end)
      assert.is_false((pcall(frozen, "x")))
      assert.is_false((pcall(frozen, {torch.ones(1), 3})))
      assert.same({3}, frozen(torch.tensor {9.}):tolist())
   end)
end)
