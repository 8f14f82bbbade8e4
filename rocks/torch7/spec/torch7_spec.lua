local torch = require "tlua"
local nn = torch.nn

local function values(tensor) return tensor:detach():flatten():tolist() end

describe("Torch7's containers", function()
   local x = torch.tensor {{1.0, 2}, {3, 4}}

   it("pass the whole input to every module", function()
      local both = nn.ConcatTable(nn.Identity()):add(nn.MulConstant(10))
      local out = both(x)
      assert.equal(2, #out)
      assert.same({10.0, 20.0, 30.0, 40.0}, values(out[2]))
      assert.same({2, 4}, nn.Concat(2, nn.Identity(), nn.MulConstant(10))(x).shape)
      assert.same({1.0, 2.0, 10.0, 20.0, 3.0, 4.0, 30.0, 40.0},
         values(nn.Concat(2):add(nn.Identity()):add(nn.MulConstant(10))(x)))
      assert.equal(2, both:size())
      assert.equal("nn.MulConstant", torch.type(both:get(2)))
   end)

   it("pass one element to each module, or all elements to one module", function()
      local out = nn.ParallelTable(nn.AddConstant(1), nn.MulConstant(2)) {x, x}
      assert.same({2.0, 3.0, 4.0, 5.0}, values(out[1]))
      assert.same({2.0, 4.0, 6.0, 8.0}, values(out[2]))
      local map = nn.MapTable(nn.Linear(2, 1))
      assert.equal(3, #map {x, x, x})
      assert.equal(2, #map:parameters())
      assert.raises("nn.ParallelTable: input: expected 1 elements, one for each module, got 2",
         function() nn.ParallelTable(nn.Identity()) {x, x} end)
      assert.raises("nn.MapTable: expected one module; it has one", function() map:add(nn.Identity()) end)
   end)

   it("print as trees, own their modules' parameters and can be trained", function()
      local model = nn.Sequential(nn.ConcatTable(nn.Linear(2, 1), nn.Linear(2, 1)), nn.CAddTable())
      assert.equal([[
Sequential(
  (1): ConcatTable(
    (1): Linear(in_features=2, out_features=1, bias=true)
    (2): Linear(in_features=2, out_features=1, bias=true)
  )
  (2): CAddTable()
)]], tostring(model))
      model(x):sum():backward()
      for _, parameter in ipairs(model:parameters()) do assert.is_not_nil(parameter.grad) end
      assert.same({4.0, 6.0}, values(model[1][2].weight.grad))
   end)
end)

describe("Torch7's layers of tables", function()
   local a, b = torch.tensor {{1.0, 2}, {3, 4}}, torch.tensor {{5.0, 6}, {7, 8}}

   it("join and split", function()
      assert.same({4, 2}, nn.JoinTable(1) {a, b}.shape)
      assert.same({2, 4}, nn.JoinTable(1, 1) {a, b}.shape)
      local rows = nn.SplitTable(1)(a)
      assert.same({3.0, 4.0}, values(rows[2]))
      assert.same({2.0, 4.0}, values(nn.SplitTable(-1)(a)[2]))
      assert.same({2.0, 4.0}, values(nn.SplitTable(1, 1)(a)[2]))
   end)

   it("select, narrow and flatten", function()
      assert.equal(b, nn.SelectTable(-1) {a, b})
      assert.equal(a, nn.SelectTable("first") {first = a})
      assert.same({2, 3}, nn.NarrowTable(2, 2) {1, 2, 3, 4})
      assert.same({2, 3, 4}, nn.NarrowTable(2, -1) {1, 2, 3, 4})
      assert.same({1, 2, 3, 4}, nn.FlattenTable() {1, {2, {3}}, 4})
      assert.raises("nn.SelectTable: input: there is no element 3", function() nn.SelectTable(3) {a, b} end)
   end)

   it("compute elementwise", function()
      assert.same({6.0, 8.0, 10.0, 12.0}, values(nn.CAddTable() {a, b}))
      assert.same({-4.0, -4.0, -4.0, -4.0}, values(nn.CSubTable() {a, b}))
      assert.same({5.0, 12.0, 21.0, 32.0}, values(nn.CMulTable() {a, b}))
      assert.same({5.0, 3.0}, values(nn.CDivTable() {b[1], a[1]}))
      local sum = a:clone()
      assert.equal(sum, nn.CAddTable(true) {sum, b})
      assert.raises("nn.CSubTable: input: expected a table of 2 tensors, got a table of 3",
         function() nn.CSubTable() {a, a, a} end)
   end)
end)

describe("Torch7's layers of shapes", function()
   local x = torch.arange(1, 25, {dtype = "float32"}):view(2, 3, 4)

   it("view and reshape with and without a batch", function()
      assert.same({2, 12}, nn.View(12)(x).shape)
      assert.same({2, 12}, nn.View(-1):setNumInputDims(2)(x).shape)
      assert.same({24}, nn.View(-1)(x).shape)
      assert.same({4, 6}, nn.View({4, 6})(x).shape)
      assert.same({4, 6}, nn.Reshape(4, 6)(x).shape)
      assert.same({2, 6, 2}, nn.Reshape(6, 2, true)(x).shape)
      assert.same({1, 3, 4}, nn.Reshape(3, 4)(x:narrow(1, 1, 1)).shape)
      assert.same({3, 4}, nn.Reshape(3, 4, false)(x:narrow(1, 1, 1)).shape)
      assert.raises("nn.View: input: expected a multiple of 5 elements, got 24", function() nn.View(5)(x) end)
   end)

   it("add, remove and exchange dimensions", function()
      assert.same({2, 1, 3, 4}, nn.Unsqueeze(2)(x).shape)
      assert.same({2, 1, 3, 4}, nn.Unsqueeze(1):setNumInputDims(2)(x).shape)
      assert.same({3, 4}, nn.Squeeze()(x:narrow(1, 1, 1)).shape)
      assert.same({1, 3, 4}, nn.Squeeze():setNumInputDims(2)(x:narrow(1, 1, 1)).shape)
      assert.same({3, 4, 2}, nn.Transpose({1, 2}, {2, 3})(x).shape)
      assert.same({2, 5, 3, 4}, nn.Replicate(5, 2)(x).shape)
      assert.same({5, 2, 3, 4}, nn.Replicate(5)(x).shape)
   end)

   it("pad and copy", function()
      local row = torch.tensor {1.0, 2, 3}
      assert.same({1.0, 2.0, 3.0, 9.0, 9.0}, values(nn.Padding(1, 2, {value = 9})(row)))
      assert.same({9.0, 1.0, 2.0, 3.0}, values(nn.Padding(1, -1, {value = 9})(row)))
      assert.same({1.0, 2.0, 9.0, 3.0}, values(nn.Padding(1, 1, {value = 9, index = 2})(row)))
      local copied = nn.Copy("float32", "float64")(row)
      assert.equal("float64", copied.dtype)
      assert.are_not.equal(row, nn.Copy()(row))
   end)
end)

it("Torch7's small layers scale and shift", function()
   local x = torch.tensor {{1.0, 2}, {3, 4}}
   local mul, add = nn.Mul(), nn.Add(2)
   mul.weight.data:fill_(3)
   add.bias.data:copy_(torch.tensor {10.0, 20})
   assert.same({3.0, 6.0, 9.0, 12.0}, values(mul(x)))
   assert.same({11.0, 22.0, 13.0, 24.0}, values(add(x)))
   assert.same({1}, nn.Add(2, true).bias.shape)
   assert.raises("nn.Add: input: expected 2 elements for each sample", function() add(torch.randn(2, 3)) end)
end)

describe("Torch7's methods", function()
   it("flatten parameters and gradients into two vectors that the modules share", function()
      torch.manual_seed(1)
      local model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
      local x = torch.randn(5, 3)
      local before = model(x):detach()
      local flat, grads = model:getParameters()
      assert.same({11}, flat.shape)
      assert.is_true(torch.equal(before, model(x)))
      model(x):sum():backward()
      assert.same({5.0}, {grads[11]:item()}) -- element 11 is the gradient of the last bias
      model(x):sum():backward()
      assert.same({10.0}, {grads[11]:item()})
      model:zeroGradParameters()
      assert.equal(0, grads:abs():sum():item())
      flat:zero_()
      assert.equal(0, model(x):abs():sum():item())
      assert.same({2, 3}, model[1].weight.shape)
   end)

   it("find, list and replace modules", function()
      local model = nn.Sequential(nn.Linear(3, 2), nn.Dropout(), nn.Sequential(nn.Dropout()))
      local found, holders = model:findModules "nn.Dropout"
      assert.equal(2, #found)
      assert.equal(model, holders[1])
      assert.equal(model[3], holders[2])
      assert.equal(5, #model:listModules())
      model:replace(function(module) return torch.type(module) == "nn.Dropout" and nn.Identity() or module end)
      assert.equal(0, #model:findModules "nn.Dropout")
      assert.equal("nn.Identity", torch.type(model[3][1]))
      assert.raises("replace: callback: expected a module from it, got nil", function()
         model:replace(function() end)
      end)
   end)

   it("call updateOutput of a class, and drop the values that a module caches", function()
      local Twice = torch.class("Twice", nn.Module)
      function Twice:updateOutput(x)
         self.output = x * 2
         return self.output
      end
      local model = nn.Sequential(Twice())
      assert.same({2.0}, values(model(torch.ones(1))))
      assert.same({2.0}, values(nn.MulConstant(2):updateOutput(torch.ones(1))))
      assert.is_not_nil(model[1].output)
      assert.equal(model, model:clearState())
      assert.is_nil(model[1].output)
   end)
end)

it("an error inside a model names the path and the class of the module", function()
   local Block = torch.class("Block", nn.Module)
   function Block:__init()
      nn.Module.__init(self)
      self.conv1 = nn.Conv2d(3, 4, 3)
   end
   function Block:forward(x) return self.conv1(x) end
   local model = nn.Sequential(nn.ReLU(), nn.ReLU(), Block())
   local ok, message = pcall(function() return model(torch.randn(1, 2, 5, 5)) end)
   assert.is_false(ok)
   assert.match("^%S+:%d+: 3%.conv1 %(Conv2d%): conv2d: ", message)
   ok, message = pcall(function() return model[3].conv1(torch.randn(1, 2, 5, 5)) end)
   assert.is_false(ok)
   assert.match("^%S+:%d+: conv2d: ", message)
end)

it("Torch7's call model:training() sets training mode after torch7.mode.allow_call", function()
   local mode = require "tlua.torch7".mode
   finally(mode.refuse_call)
   mode.allow_call()
   mode.allow_call()
   local net = nn.Sequential(nn.Linear(2, 2)):eval()
   assert.is_true(net:training() == net)
   assert.is_true(net[1].training)
   assert.equal("boolean", type(net.training))
   assert.raises("attempt to call a boolean value", function() (true)(1) end)
end)
