local torch = require "tlua"
local nn = torch.nn

-- This module has two linear layers, a parameter and two buffers.
local Net = torch.class("Net", nn.Module)

function Net:__init()
   nn.Module.__init(self)
   self.first = nn.Linear(3, 4)
   self.scale = nn.Parameter(torch.ones(1))
   self.second = nn.Linear(4, 2, {bias = false})
   self:register_buffer("count", torch.tensor(0))
   self:register_buffer("scratch", torch.zeros(2), {persistent = false})
end

function Net:forward(input) return self.second(self.first(input):relu() * self.scale) end

local function names(iterator)
   local list = {}
   for name in iterator do list[#list + 1] = name end
   return list
end

describe("nn.Module", function()
   local net
   before_each(function()
      torch.manual_seed(1)
      net = Net()
   end)

   it("has the parameters of its fields, its own first, in the order of assignment", function()
      assert.same({"scale", "first.weight", "first.bias", "second.weight"}, names(net:named_parameters()))
      assert.equal(4, #net:parameters())
      assert.is_true(net:parameters()[1] == net.scale)
   end)

   it("keeps the order that is written in one assignment of several fields", function()
      local Pair = torch.class("Pair", nn.Module)
      function Pair:__init(shared)
         self.b, self.width, self.a = nn.Linear(1, 1), 3, nn.Linear(1, 1)
         self.v, self.u = nn.Parameter(torch.zeros(1)), nn.Parameter(torch.zeros(1))
         self.n, self.m = nn.Buffer(torch.zeros(1)), nn.Buffer(torch.zeros(1))
         self.g, self.f = nn.Sequential(nn.Linear(1, 1), nn.ReLU()), shared or nn.Tanh()
         self.z = nn.Identity()
         self.y, self.x = self.z:clone(), self.z:clone()
      end
      local pair = Pair()
      assert.same({"b", "a", "g", "f", "z", "y", "x"}, names(pair:named_children()))
      assert.same({"v", "u", "b.weight", "b.bias", "a.weight", "a.bias", "g.1.weight", "g.1.bias"},
         names(pair:named_parameters()))
      assert.same({"n", "m"}, names(pair:named_buffers()))
      assert.matches("%(b%).*%(a%).*%(g%).*%(f%).*%(z%).*%(y%).*%(x%)", tostring(pair))
   end)

   it("keeps the order of lines, of loops, and of functions that assign", function()
      local a, b = nn.Tanh(), nn.ReLU()
      local lines = nn.Module()
      lines.b = b
      lines.a = a
      assert.same({"b", "a"}, names(lines:named_children()))
      local calls = nn.Module()
      for name, module in pairs {b = b} do calls:add_module(name, module) end
      calls:add_module("a", a)
      assert.same({"b", "a"}, names(calls:named_children()))
      local loop = nn.Module()
      for _, name in ipairs {"z", "y", "x"} do loop[name] = nn.Identity() end
      assert.same({"z", "y", "x"}, names(loop:named_children()))
      assert.same({"z", "y"}, names(nn.ModuleDict():set("z", b):set("y", a):items()))
      local row = nn.Sequential(b, a)
      assert.is_true(row:children()[1] == b)
      local numbered = nn.Module()
      numbered[1], numbered[2] = b, a
      assert.same({1, 2}, names(numbered:named_children()))
   end)

   it("puts a prefix before names", function()
      assert.same({"net.scale", "net.first.weight", "net.first.bias", "net.second.weight"},
         names(net:named_parameters("net")))
   end)

   it("takes PyTorch's options for its names, by position and by name", function()
      local all = {"first.weight", "first.bias", "second.weight"}
      assert.same({"m.scale", "m." .. all[1], "m." .. all[2], "m." .. all[3]},
         names(net:named_parameters {prefix = "m"}))
      assert.same({"m.scale"}, names(net:named_parameters("m", false)))
      assert.same({"scale"}, names(net:named_parameters {recurse = false}))
      assert.is_true(net:parameters {recurse = false}[1] == net.scale)
      assert.equal(1, #net:parameters(false))
      net.again = net.first
      assert.same({"scale", all[1], all[2], all[3], "again.weight", "again.bias"},
         names(net:named_parameters {remove_duplicate = false}))
      assert.same({"m", "m.first", "m.second", "m.again"},
         names(net:named_modules {prefix = "m", remove_duplicate = false}))
      assert.same({"b.count", "b.scratch"}, names(net:named_buffers {prefix = "b"}))
      assert.equal(0, #net.first:buffers(false))
      assert.raises("nn.Module.named_parameters: unknown option prefixes; did you mean prefix?",
         function() net:named_parameters {prefixes = "m"} end)
      assert.raises("nn.Module.named_parameters: prefix: expected a string, got 3",
         function() net:named_parameters(3) end)
   end)

   it("refuses names with dots and names of methods", function()
      local layer, one = nn.Linear(1, 1), torch.ones(1)
      local members = {register_buffer = one, register_parameter = nn.Parameter(one), add_module = nn.ReLU()}
      for method, member in pairs(members) do
         for _, name in ipairs {"a.b", ""} do
            assert.raises(('nn.Module.%s: name: expected a name without dots, got "%s"'):format(method, name),
               function() layer[method](layer, name, member) end)
         end
         assert.raises(("nn.Module.%s: forward is the name of a method"):format(method),
            function() layer[method](layer, "forward", member) end)
      end
      assert.equal(1, layer(torch.ones(1, 1)):numel())
      assert.equal(2, #layer:parameters())
   end)

   it("takes a tensor and non_blocking in `to`, as PyTorch's modules do", function()
      local layer = nn.Linear(1, 1)
      assert.equal("float64", layer:to(torch.ones(1, {dtype = "float64"})).weight.dtype)
      assert.equal("float32", layer:to("cpu", {dtype = "float32", non_blocking = true}).weight.dtype)
      assert.raises("to: dtype: expected a floating-point dtype", function() layer:to(torch.tensor(1)) end)
   end)

   it("needs no call of its constructor to register", function()
      local Plain = torch.class("Plain", nn.Module)
      function Plain:__init() self.layer = nn.Linear(2, 2) end
      assert.equal(2, #Plain():parameters())
   end)

   it("uses the present value of a field", function()
      net.first = nn.Identity()
      assert.same({"scale", "second.weight"}, names(net:named_parameters()))
      net.second = nil
      assert.same({"scale"}, names(net:named_parameters()))
      net.second = nn.Linear(1, 1)
      assert.same({"scale", "second.weight", "second.bias"}, names(net:named_parameters()))
   end)

   it("sees a module in a field that held something else", function()
      local module = nn.Module()
      module.layer = false
      module.layer = nn.Linear(1, 1)
      assert.equal(2, #module:parameters())
   end)

   it("takes a tensor for a parameter only if it is one", function()
      net.plain = torch.ones(3)
      assert.equal(4, #net:parameters())
      assert.has_error(function() net:register_parameter("p", torch.ones(1)) end)
      net:register_parameter("p", nn.Parameter(torch.ones(1)))
      assert.equal(5, #net:parameters())
   end)

   it("gives shared parameters and modules once", function()
      net.again = net.first
      net.tied = net.second.weight
      assert.equal(4, #net:parameters())
      assert.equal(3, #net:modules())
      assert.equal(2, #net:children())
      -- A shared parameter is named by its first path. A module's own parameters come before its children's.
      assert.same({"scale", "tied", "first.weight", "first.bias"}, names(net:named_parameters()))
   end)

   it("lists modules, parents first", function()
      assert.same({"", "first", "second"}, names(net:named_modules()))
      assert.same({"first", "second"}, names(net:named_children()))
      assert.is_true(net:modules()[1] == net)
   end)

   it("lists buffers", function()
      assert.same({"count", "scratch"}, names(net:named_buffers()))
      net.count = torch.tensor(3)
      assert.equal(3, net:buffers()[1]:item())
   end)

   it("finds submodules and parameters by path", function()
      assert.is_true(net:get_submodule("first") == net.first)
      assert.is_true(net:get_submodule("") == net)
      assert.is_true(net:get_parameter("second.weight") == net.second.weight)
      local deep = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1)))
      assert.is_true(deep:get_submodule("2.1") == deep[2][1])
      assert.raises("Net has no third", function() net:get_submodule("third") end)
      assert.raises("first has no wait", function() net:get_submodule("first.wait") end)
      assert.raises("is not a module", function() net:get_submodule("scale") end)
   end)

   it("is called like a function and gives all results", function()
      assert.same({5, 2}, net(torch.randn(5, 3)).shape)
      local Pair = torch.class("Pair", nn.Module)
      function Pair:forward(a, b) return b, a, nil end
      assert.equal(3, select("#", Pair()(1, 2)))
      assert.same({2, 1}, {Pair()(1, 2)})
   end)

   it("raises an error if forward is missing", function()
      local Empty = torch.class("Empty", nn.Module)
      assert.raises("Empty has no method forward", function() Empty()() end)
   end)

   it("uses a method that is replaced later", function()
      local Later = torch.class("Later", nn.Module)
      function Later:forward() return 1 end
      local object = Later()
      function Later:forward() return 2 end
      assert.equal(2, object())
   end)

   it("names the path of the module in which an operator fails", function()
      local model = nn.Sequential(nn.Identity(), nn.Sequential(nn.Linear(3, 2)))
      local _, message = pcall(function() return model(torch.randn(4, 5)) end)
      assert.matches("2%.1", message)
      assert.matches("module_spec.lua", message, 1, true)
   end)
end)

describe("the mode of a module", function()
   it("is training at first", function() assert.is_true(Net().training) end)

   it("is set for all below it, and returns the module", function()
      local net = Net()
      assert.is_true(net:evaluate() == net)
      assert.is_false(net.first.training)
      assert.is_true(net:train(true).first.training)
      assert.is_false(net:train(false).second.training)
      assert.is_true(net:train().training)
      assert.is_false(net:eval().training)
      assert.raises("train: mode: expected a boolean, got 1", function() net:train(1) end)
      assert.raises('train: mode: expected a boolean, got "x"', function() net:train("x") end)
      assert.raises("train: mode: expected a boolean, got nil", function() net:train(nil) end)
      assert.is_false(net.training)
   end)

   it("reads as PyTorch's: `m.training and a or b`", function()
      local layer = nn.Dropout(0.5)
      assert.equal(0.5, layer.training and layer.p or 0)
      assert.equal(0, layer:eval().training and layer.p or 0)
   end)

   it("is assigned for one module alone", function()
      local net, x = nn.Sequential(nn.Dropout(1), nn.Dropout(1)), torch.ones(3)
      net[1].training = false
      assert.is_true(net.training and net[2].training)
      assert.equal(3, net[1](x):sum():item())
      assert.equal(0, net[2](x):sum():item())
      net.training = false
      assert.is_true(net[2].training)
   end)

   it("is refused at the next call if it is not a boolean", function()
      local x = torch.ones(3)
      for _, wrong in ipairs {1, 0, "eval"} do
         local layer = nn.Dropout(0.5):eval()
         layer.training = wrong
         assert.raises("nn.Dropout: training: expected true or false, got", function() layer(x) end)
      end
      local net = nn.Sequential(nn.Dropout(0.5)):eval()
      -- nil is an error too, because a misspelt variable is nil, as in `net[1].training = was_trainig`
      net[1].training = nil
      assert.raises("training: expected true or false, got nil", function() net(x) end)
      net:train()
      assert.is_true(net[1].training)
   end)

   it("is no method: Torch7's call fails and changes nothing", function()
      local net = Net():eval()
      assert.raises("attempt to call a boolean value (method 'training')", function() net:training() end)
      assert.is_false(net.training)
   end)

   it("is not a class's, neither as a method nor as a value", function()
      local Old = torch.class("Old", nn.Module)
      assert.raises("Old: training is a field of each instance", function()
         function Old:training() return self end
      end)
      assert.raises("Old: training is a field of each instance", function() Old.training = false end)
   end)

   it("follows a class's own train, also through eval", function()
      local Frozen = torch.class("Frozen", nn.Module)
      function Frozen:train() return nn.Module.train(self, false) end
      assert.is_false(Frozen():train().training)
      assert.is_false(Frozen():eval().training)
   end)

   it("is copied to a clone", function()
      local net = Net()
      net.first.training = false
      local copy = net:clone()
      assert.is_true(copy.training)
      assert.is_false(copy.first.training)
   end)
end)

describe("gradients of a module", function()
   it("are dropped or zeroed", function()
      local net = Net()
      net(torch.randn(2, 3)):sum():backward()
      assert.is_not_nil(net.scale.grad)
      net:zero_grad({set_to_none = false})
      assert.equal(0, net.first.weight.grad:abs():sum():item())
      net:zero_grad()
      assert.is_nil(net.scale.grad)
   end)

   it("are not computed for a frozen module", function()
      local net = Net()
      assert.is_true(net:requires_grad_(false) == net)
      assert.is_false(net(torch.randn(2, 3)).requires_grad)
      net:requires_grad_()
      assert.is_true(net.scale.requires_grad)
   end)
end)

describe("casting a module", function()
   it("keeps the parameters the same objects, and shared ones shared", function()
      local net = Net()
      net.tied = net.second.weight
      local weight = net.first.weight
      assert.is_true(net:double() == net)
      assert.is_true(net.first.weight == weight and net.tied == net.second.weight)
      assert.equal("float64", weight.dtype)
      assert.is_true(weight.is_parameter and weight.requires_grad and weight.is_leaf)
      assert.equal("float64", net(torch.randn(2, 3, {dtype = "float64"})).dtype)
   end)

   it("takes gradients along", function()
      local net = Net()
      net(torch.randn(2, 3)):sum():backward()
      net:to("float64")
      assert.equal("float64", net.scale.grad.dtype)
   end)

   it("leaves integers as they are", function()
      assert.equal("int64", Net():half().count.dtype)
      assert.equal("float16", Net():half().scratch.dtype)
   end)

   it("takes devices and dtypes in any order", function()
      assert.equal("float64", Net():to("cpu", "float64").scale.dtype)
      assert.equal("float64", Net():to({dtype = "float64", device = "cpu"}).scale.dtype)
      assert.raises("unknown option dtyp; did you mean dtype?", function() Net():to({dtyp = "float64"}) end)
      assert.raises("floating-point", function() Net():to({dtype = "int64"}) end)
   end)
end)

describe("the state of a module", function()
   it("has parameters and persistent buffers by path", function()
      local state = Net():state_dict()
      local keys = {}
      for key in pairs(state) do keys[#keys + 1] = key end
      table.sort(keys)
      assert.same({"count", "first.bias", "first.weight", "scale", "second.weight"}, keys)
      assert.is_false(state["first.weight"].requires_grad)
   end)

   it("shares memory with the module", function()
      local net = Net()
      net:state_dict().scale:fill_(7)
      assert.equal(7, net.scale:item())
   end)

   it("has every path of a shared tensor", function()
      local net = Net()
      net.again = net.first
      local state = net:state_dict()
      assert.is_not_nil(state["again.weight"])
      assert.is_not_nil(state["first.weight"])
   end)

   it("is loaded into another", function()
      local a, b = Net(), Net()
      b:load_state_dict(a:state_dict())
      local x = torch.randn(2, 3)
      assert.close(a(x):tolist(), b(x):tolist(), 0)
   end)

   it("that does not fit is refused with all reasons, and nothing changes", function()
      local net = Net()
      local before = net.scale:item()
      local state = Net():state_dict()
      state.scale = torch.full({1}, 9.0)
      state["first.bias"] = nil
      state.extra = torch.ones(1)
      state["second.weight"] = torch.ones(4, 4)
      assert.raises("missing: first.bias", "unexpected: extra",
         "second.weight: expected shape (2, 4), got (4, 4)", function()
            net:load_state_dict(state)
         end)
      assert.equal(before, net.scale:item())
   end)

   it("may be loaded partly", function()
      local net = Net()
      local missing, unexpected = net:load_state_dict({scale = torch.full({1}, 5.0),
         more = torch.ones(1)}, {strict = false})
      assert.equal(5, net.scale:item())
      assert.same({"count", "first.bias", "first.weight", "second.weight"}, missing)
      assert.same({"more"}, unexpected)
      assert.raises("of another shape: scale",
         function() net:load_state_dict({scale = torch.ones(3)}, {strict = false}) end)
   end)

   it("is cast to the module's dtype", function()
      local net = Net():double()
      net:load_state_dict(Net():state_dict())
      assert.equal("float64", net.first.weight.dtype)
   end)
end)

describe("a module", function()
   it("applies a function to all modules, children first", function()
      local seen = {}
      local net = Net()
      assert.is_true(net:apply(function(m) seen[#seen + 1] = torch.type(m) end) == net)
      assert.same({"nn.Linear", "nn.Linear", "Net"}, seen)
   end)

   it("is copied with new parameters, which are shared as in the original", function()
      local net = Net()
      net.tied = net.second.weight
      local copy = net:clone()
      assert.is_true(copy.tied == copy.second.weight)
      assert.is_false(copy.tied == net.tied)
      torch.no_grad(function() copy.first.weight:zero_() end)
      assert.is_true(net.first.weight:abs():sum():item() > 0)
      assert.equal(4, #copy:parameters())
      assert.is_true(torch.isinstance(copy, Net))
   end)

   it("is printed with its submodules", function()
      assert.equal([[
Net(
  (first): Linear(in_features=3, out_features=4, bias=true)
  (second): Linear(in_features=4, out_features=2, bias=false)
)]], tostring(Net()))
   end)
end)

describe("hooks of a module", function()
   it("change arguments and results", function()
      local module = nn.Identity()
      local pre = module:register_forward_pre_hook(function(_, x) return x + 1 end)
      local post = module:register_forward_hook(function(_, inputs, y)
         assert.equal(2, inputs[1])
         return y * 10
      end)
      assert.equal(20, module(1))
      post:remove()
      pre:remove()
      assert.equal(1, module(1))
   end)

   it("change nothing if they return nothing", function()
      local module, seen = nn.Linear(2, 3), nil
      module:register_forward_pre_hook(function() return nil end) -- a nil changes nothing
      module:register_forward_hook(function(m, inputs, output)
         seen = {m, #inputs, output.shape}
         return nil
      end)
      module(torch.ones(4, 2))
      assert.is_true(seen[1] == module)
      assert.same({1, {4, 3}}, {seen[2], seen[3]})
   end)

   it("see the gradients of inputs and results", function()
      local module = nn.Linear(2, 1, {bias = false})
      torch.no_grad(function() module.weight:copy_(torch.tensor {{2.0, 3.0}}) end)
      local seen
      module:register_full_backward_hook(function(_, grad_inputs, grad_outputs)
         seen = {grad_inputs[1]:tolist(), grad_outputs[1]:tolist()}
      end)
      local x = torch.ones(1, 2):requires_grad_()
      local y = module(x) * 5
      y:sum():backward()
      assert.same({{{10, 15}}, {{5}}}, seen)
      assert.same({{10, 15}}, x.grad:tolist())
   end)

   it("replace the gradients of the inputs", function()
      local module = nn.Identity()
      module:register_full_backward_hook(function(_, grads) return {grads[1] * 0, grads[2] * 2} end)
      local a, b = torch.ones(2):requires_grad_(), torch.ones(2):requires_grad_()
      local x, y = module(a, b)
      torch.add(x, y):sum():backward()
      assert.same({0, 0}, a.grad:tolist())
      assert.same({2, 2}, b.grad:tolist())
   end)

   it("see the results' gradients when no input has one", function()
      local module, seen = nn.Linear(2, 1), nil
      module:register_full_backward_hook(function(_, grad_inputs, grad_outputs)
         seen = {grad_inputs[1] == nil, grad_outputs[1]:item()}
      end)
      module(torch.ones(1, 2)):sum():backward()
      assert.same({true, 1}, seen)
   end)
end)
