local torch = require "tlua"
local nn = torch.nn

local function types(modules)
   local list = {}
   for i, module in ipairs(modules) do list[i] = torch.type(module) end
   return list
end

describe("nn.Sequential", function()
   it("calls its modules in a row", function()
      local model = nn.Sequential(nn.Linear(2, 3), nn.ReLU()):add(nn.Linear(3, 1))
      local x = torch.randn(4, 2)
      assert.close(model[3](model[1](x):relu()):tolist(), model(x):tolist(), 0)
   end)

   it("is a list of modules", function()
      local model = nn.Sequential {nn.ReLU(), nn.Tanh()}
      assert.equal(2, #model)
      assert.same({"nn.ReLU", "nn.Tanh"}, types(model))
      assert.same({"1", "2"}, {(function()
         local names = {}
         for name in model:named_children() do names[#names + 1] = tostring(name) end
         return table.unpack(names)
      end)()})
   end)

   it("names parameters by position, from 1", function()
      local names = {}
      for name in nn.Sequential(nn.ReLU(), nn.Linear(1, 1)):named_parameters() do names[#names + 1] = name end
      assert.same({"2.weight", "2.bias"}, names)
   end)

   it("lets modules be put in and taken out", function()
      local model = nn.Sequential(nn.ReLU(), nn.Tanh())
      model:insert(2, nn.Sigmoid())
      assert.same({"nn.ReLU", "nn.Sigmoid", "nn.Tanh"}, types(model))
      assert.equal("nn.ReLU", torch.type(model:remove(1)))
      assert.same({"nn.Sigmoid", "nn.Tanh"}, types(model))
      model:insert(3, nn.GELU())
      assert.equal("nn.GELU", torch.type(model:remove()))
      assert.raises("from 1 to 3", function() model:insert(5, nn.ReLU()) end)
      model[1] = nn.ELU()
      assert.same({"nn.ELU", "nn.Tanh"}, types(model))
   end)

   it("gives parts that share its modules", function()
      local model = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.GELU())
      assert.same({"nn.Tanh", "nn.GELU"}, types(model:slice(2)))
      assert.is_true(model:slice(-2, -1)[1] == model[2])
      assert.raises("the range 2 to 4 does not lie inside of 1 to 3", function() model:slice(2, 4) end)
   end)

   it("takes a range with its end as a key, and negative positions", function()
      local model = nn.Sequential(nn.ReLU(), nn.Tanh(), nn.GELU())
      assert.equal("nn.Sequential", torch.type(model[{1, 2}]))
      assert.same({"nn.ReLU", "nn.Tanh"}, types(model[{1, 2}]))
      assert.same({"nn.Tanh", "nn.GELU"}, types(model[{-2, -1}]))
      assert.same({"nn.Tanh"}, types(model[{2, 2}]))
      assert.same({"nn.ReLU", "nn.Tanh", "nn.GELU"}, types(model[{}]))
      assert.is_true(model[{2, 3}][1] == model[2] and model[-1] == model[3])
      assert.is_nil(model[4])
      assert.raises("nn.Sequential: expected a position from -3 to -1, got -4", function() return model[-4] end)
      assert.raises("nn.Sequential: the range 1 to 4 does not lie inside of 1 to 3",
         function() return model[{1, 4}] end)
      assert.raises("nn.Sequential: expected a position, or a range {first, last}",
         function() return model[{first = 1}] end)
      assert.raises("a range {first, last}", function() return model[{1}] end)
      local Block = torch.class("CutBlock", nn.Sequential)
      function Block:forward(x) return nn.Sequential.forward(self, x) * 2 end
      local block = Block(nn.Identity(), nn.ReLU())
      assert.equal(6, block(torch.tensor(3.0)):item())
      assert.is_true(block[-1] == block[2])
   end)

   it("refuses values that are not modules", function()
      assert.raises("nn.Sequential: module 2: expected a module, got a function",
         function() nn.Sequential(nn.ReLU(), print) end)
      assert.raises("module 1: expected a module, got the class nn.ReLU; call it",
         function() nn.Sequential(nn.ReLU) end)
   end)

   it("refuses a table with names as keys, and shows the form with an order", function()
      assert.raises("got a table with the key conv1, whose order is undefined; write "
         .. 'nn.Sequential {{"conv1", nn.ReLU(...)}, ...}, a list of pairs',
         function() nn.Sequential {conv1 = nn.ReLU()} end)
   end)

   it("gives back its input when it is empty", function() assert.equal(5, nn.Sequential()(5)) end)

   it("is printed as PyTorch prints it, counted from 1", function()
      assert.equal([[
Sequential(
  (1): Linear(in_features=2, out_features=16, bias=true)
  (2): Sequential(
    (1): Tanh()
    (2): Conv2d(1, 32, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))
  )
)]], tostring(nn.Sequential(nn.Linear(2, 16),
         nn.Sequential(nn.Tanh(), nn.Conv2d(1, 32, 3, {padding = 1})))))
      assert.equal("Sequential()", tostring(nn.Sequential()))
      local shared = nn.ReLU()
      assert.equal("Sequential(\n  (1): ReLU()\n  (2): ReLU()\n)", tostring(nn.Sequential(shared, shared)))
   end)
end)

describe("nn.Sequential with names", function()
   local function make()
      return nn.Sequential {{"conv", nn.Conv2d(1, 2, 3)}, {"act", nn.Tanh()}, nn.Flatten(), {"fc", nn.Linear(8, 3)}}
   end
   local function names_of(iterate)
      local list = {}
      for name in iterate do list[#list + 1] = tostring(name) end
      return list
   end
   local x <const> = torch.ones(1, 1, 4, 4)

   it("loads a state of PyTorch by the names, and computes the same", function()
      local saved = torch.load "spec/fixtures/formats/named.pt"
      local act = nn.Tanh()
      local model = nn.Sequential {{"conv", nn.Conv2d(1, 2, 3)}, {"act", act}, {"flat", nn.Flatten()}}
      model:append(nn.Linear(8, 3))
      model:add_module("head", nn.Sequential {{"fc", nn.Linear(3, 2)}, {"act", act}})
      assert.same({}, (model:load_state_dict(saved.state, {names = "pytorch"})))
      assert.close(saved.y, model(saved.x:to(model.conv.weight.device)):cpu(), 1e-6)
      local own = names_of(model:named_modules())
      -- The layer without a name is named by its position, which is 4 in Lua and 3 in PyTorch, since PyTorch counts
      -- from 0.
      for i, name in ipairs(own) do own[i] = name:gsub("^4$", "3") end
      assert.same(saved.names, own)
      local state = model:state_dict {names = "pytorch"}
      for name, tensor in pairs(saved.state) do assert.is_true(torch.equal(tensor, state[name]:cpu()), name) end
   end)

   it("has its modules by position and by name", function()
      local model = make()
      assert.equal(4, #model)
      assert.is_true(model.conv == model[1] and model.fc == model[-1] and model:get_submodule "act" == model[2])
      assert.same({"conv", "act", "3", "fc"}, names_of(model:named_children()))
      assert.same({"1", "2", "3", "4"}, names_of(pairs(model)))
      assert.same({"conv.weight", "conv.bias", "fc.weight", "fc.bias"}, names_of(model:named_parameters()))
      assert.same({1, 3}, model(x).shape)
      assert.is_nil(model.nothing)
      assert.equal("Sequential(\n  (act): Tanh()\n  (2): Flatten(start_dim=2, end_dim=-1)\n)",
         tostring(model[{2, 3}]))
      assert.equal("fc.bias", model[{2, -1}]:get_parameter "fc.bias" == model.fc.bias and "fc.bias")
   end)

   it("replaces a module by position or by name", function()
      local model = make()
      model[2] = nn.ReLU()
      assert.equal("nn.ReLU", torch.type(model.act))
      model.act = nn.GELU()
      assert.equal("nn.GELU", torch.type(model[2]))
      model:add_module("act", nn.SiLU()):set_submodule("conv", nn.Conv2d(1, 2, 3, {bias = false}))
      assert.same({"conv.weight", "fc.weight", "fc.bias"}, names_of(model:named_parameters()))
      assert.equal("nn.SiLU", torch.type(model[2]))
      assert.equal(4, #model)
   end)

   it("gives names by add_module, by pairs, and to a single pair", function()
      local model = nn.Sequential():add_module("a", nn.ReLU()):append {"b", nn.Tanh()}
      model:add_module("3", nn.GELU()):add_module("3", nn.SiLU()):append(nn.Identity())
      assert.same({"a", "b", "3", "4"}, names_of(model:named_children()))
      assert.equal("nn.SiLU", torch.type(model[3]))
      assert.same({"z"}, names_of(nn.Sequential {"z", nn.ReLU()}:named_children()))
      assert.same({"y", "z"}, names_of(nn.Sequential({"y", nn.ReLU()}, {"z", nn.ReLU()}):named_children()))
   end)

   it("keeps names with their modules when others are inserted and removed", function()
      local model = make()
      model:insert(1, nn.Identity())
      model:insert(3, {"more", nn.Identity()})
      assert.same({"1", "conv", "more", "act", "5", "fc"}, names_of(model:named_children()))
      assert.equal("nn.Conv2d", torch.type(model:remove(2)))
      assert.same({"1", "more", "act", "4", "fc"}, names_of(model:named_children()))
      model:pop()
      assert.same({"1", "more", "act", "4"}, names_of(model:named_children()))
      assert.is_nil(model.fc)
      model[4] = nil
      assert.same({"1", "more", "act"}, names_of(model:named_children()))
   end)

   it("refuses to move modules without their names", function()
      for _, move in ipairs {function(m) table.remove(m, 1) end, function(m) table.insert(m, 1, nn.ReLU()) end} do
         local model = make()
         move(model)
         assert.raises("its modules were moved without their names: use seq:insert(position, module)",
            function() model:state_dict() end)
      end
   end)

   it("is copied with its names, and called with other parameters by name", function()
      local model = make()
      local copy = model:clone()
      copy.fc = nn.Identity()
      assert.same({"conv", "act", "3", "fc"}, names_of(copy:named_children()))
      assert.equal("nn.Linear", torch.type(model.fc))
      local state = model:state_dict()
      for name, tensor in pairs(state) do state[name] = torch.zeros_like(tensor) end
      assert.same({{0, 0, 0}}, torch.func.functional_call(model, state, x):tolist())
   end)

   it("keeps names when its batch norms are converted", function()
      local model = nn.Sequential {{"norm", nn.BatchNorm2d(1)}, {"act", nn.ReLU()}}
      model = nn.SyncBatchNorm.convert_sync_batchnorm(model)
      assert.same({"norm", "act"}, names_of(model:named_children()))
      assert.equal("nn.SyncBatchNorm", torch.type(model.norm))
      assert.is_nil(nn.SyncBatchNorm.convert_sync_batchnorm(nn.BatchNorm2d(1, {bias = false})).bias)
   end)

   it("is a class's parent, with a forward of its own", function()
      local Layer = torch.class("NamedLayer", nn.Sequential)
      function Layer:__init()
         nn.Sequential.__init(self)
         self:add_module("norm", nn.BatchNorm1d(2)):add_module("fc", nn.Linear(2, 2))
      end
      function Layer:forward(input) return input + self.fc(self.norm(input)) end
      local layer = Layer()
      assert.same({"norm", "fc"}, names_of(layer:named_children()))
      assert.same({3, 2}, layer(torch.randn(3, 2)).shape)
   end)

   it("refuses invalid names", function()
      local model = make()
      for name, message in pairs {
         [""] = "name: expected a string without dots, got",
         ["a.b"] = 'name: expected a string without dots, got "a.b"',
         forward = "nn.Sequential: forward is the name of a method",
         training = "training is the name of a method", _item_names = "is the name of a field",
         ["0"] = 'name: expected no number but the position 5, got "0"',
         ["7"] = "expected no number but the position 5",
      } do
         assert.raises(message, function() model:add_module(name, nn.ReLU()) end)
         assert.raises(message, function() model:append {name, nn.ReLU()} end)
      end
      assert.raises("two modules have the name act", function() model:append {"act", nn.ReLU()} end)
      assert.raises("a: expected a module, got 3", function() model:add_module("a", 3) end)
      assert.raises("act: expected a module (seq:remove(position) removes one), got nil",
         function() model.act = nil end)
      assert.raises("expected a module that does not contain it", function() model.act = model end)
      assert.raises('more: seq:add_module("more", module) adds a module with a name',
         function() model.more = nn.ReLU() end)
      assert.raises('module 2: expected a module, or a pair {"name", module}, got a table',
         function() nn.Sequential {nn.ReLU(), {act = nn.ReLU()}} end)
      assert.equal(4, #model)
   end)
end)

describe("tables of modules and parameters", function()
   it("have every name of a shared module or parameter", function()
      local shared, weight = nn.ReLU(), nn.Parameter(torch.ones(2))
      assert.same({"a", "b"}, nn.ModuleDict {a = shared, b = shared}:keys())
      local parameters = nn.ParameterDict():fromkeys({"x", "y"}, weight)
      assert.same({"x", "y"}, parameters:keys())
      assert.is_true(parameters.x == weight and parameters.y == weight)
      assert.equal(1, #parameters:parameters())
   end)

   it("are copied, and popitem removes the item that was set last", function()
      local parameters = nn.ParameterDict {{"z", torch.ones(1)}, {"a", torch.ones(2)}}
      local copy = parameters:copy()
      local name, parameter = parameters:popitem()
      assert.same({"a", {2}}, {name, parameter.shape})
      assert.same({"z", "a"}, copy:keys())
      assert.is_true(copy.a == parameter)
      parameters:popitem()
      assert.raises("nn.ParameterDict.popitem: the dictionary is empty", function() parameters:popitem() end)
   end)

   it("take a list of pairs, in its order", function()
      local modules = nn.ModuleDict {{"z", nn.ReLU()}, {"a", nn.Tanh()}}
      assert.same({"z", "a"}, modules:keys())
      assert.same({"z", "a", "m"}, modules:update({{"m", nn.GELU()}}):keys())
      assert.equal(3, #modules)
      assert.equal(2, #nn.ParameterDict {a = torch.ones(1), b = torch.ones(1)})
      assert.equal(0, #nn.ModuleDict())
      assert.same({"z", "a"}, nn.ParameterDict {{"z", torch.ones(1)}, {"a", torch.ones(2)}}:keys())
      assert.raises("nn.ModuleDict: pair 1: expected {name, module}, got an instance of nn.ReLU",
         function() nn.ModuleDict {nn.ReLU()} end)
      assert.raises("nn.ParameterDict: pair 2: expected {name, parameter}, got 3",
         function() nn.ParameterDict {{"a", torch.ones(1)}, 3} end)
   end)
end)

it("nn.ModuleList registers its modules", function()
   local list = nn.ModuleList({nn.Linear(1, 1)}):append(nn.Linear(1, 1)):extend({nn.ReLU()})
   assert.equal(3, #list)
   assert.equal(4, #list:parameters())
   assert.same({"nn.Linear", "nn.Linear", "nn.ReLU"}, types(list))
   assert.raises("expected a module", function() list:append(3) end)
end)

it("a part of an nn.ModuleList is an nn.ModuleList that shares the modules", function()
   local list = nn.ModuleList {nn.ReLU(), nn.Tanh(), nn.GELU()}
   assert.equal("nn.ModuleList", torch.type(list[{2, 3}]))
   assert.is_true(list[{2, -1}][1] == list[2] and list[-1] == list[3])
   assert.equal(2, #list[{2, 3}])
end)

describe("an error inside a model", function()
   it("names the path of a layer in a ModuleList or a ModuleDict, which are not called themselves", function()
      local Net, parent = torch.class("Net", nn.Module)
      function Net:__init()
         parent.__init(self)
         self.stages = nn.ModuleList {nn.ModuleDict {main = nn.Linear(2, 2), side = nn.Linear(3, 2)}}
      end
      function Net:forward(x) return self.stages[1].side(self.stages[1].main(x)) end
      assert.raises("1.stages.1.side (Linear): linear: input: expected a last dimension of 3",
         function() nn.Sequential(Net())(torch.ones(1, 2)) end)
   end)
end)

describe("nn.ModuleDict", function()
   it("puts a name last that was removed and is set again", function()
      for _, dict in ipairs {
         nn.ModuleDict {{"a", nn.ReLU()}, {"b", nn.Tanh()}, {"c", nn.Sigmoid()}},
         nn.ParameterDict {a = torch.ones(1), b = torch.ones(2), c = torch.ones(3)},
      } do
         local a = dict:pop "a"
         dict:set("a", a)
         assert.same({"b", "c", "a"}, dict:keys())
         dict.c = nil
         dict.c = a
         assert.same({"b", "a", "c"}, dict:keys())
         dict.a = a
         assert.same({"b", "a", "c"}, dict:keys())
         dict:clear()
         dict:set("c", a):set("a", a)
         assert.same({"c", "a"}, dict:keys())
      end
   end)

   it("registers its modules by name", function()
      local dict = nn.ModuleDict {right = nn.Linear(1, 1), left = nn.ReLU()}
      dict.more = nn.Tanh()
      local names = {}
      for name in dict:items() do names[#names + 1] = name end
      assert.same({"left", "right", "more"}, names)
      assert.equal(2, #dict:parameters())
      assert.is_not_nil(dict:state_dict()["right.weight"])
   end)

   it("refuses names of methods", function()
      assert.raises("train is the name of a method", function() nn.ModuleDict {train = nn.ReLU()} end)
   end)
end)

it("nn.ParameterList makes parameters of tensors", function()
   local list = nn.ParameterList {torch.ones(2), nn.Parameter(torch.zeros(1))}
   assert.equal(2, #list:parameters())
   assert.is_true(list[1].requires_grad)
end)

it("nn.TransformerEncoder copies its layer", function()
   torch.manual_seed(1)
   local layer = nn.TransformerEncoderLayer(4, 2, {dim_feedforward = 8, dropout = 0})
   local encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4))
   assert.equal(2 * #layer:parameters() + 2, #encoder:parameters())
   local x = torch.randn(3, 2, 4)
   assert.close(encoder.norm(layer(layer(x))):tolist(), encoder(x):tolist(), 1e-6)
end)

describe("positions of containers", function()
   it("may be set from the end", function()
      local model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 4))
      model[-1] = nn.Linear(3, 7)
      assert.same({2, 7, 4}, {#model, model(torch.ones(1, 2)).shape[2], #model:parameters()})
      local list = nn.ModuleList {nn.ReLU(), nn.Tanh()}
      list[-2] = nn.GELU()
      assert.same({"nn.GELU", "nn.Tanh"}, types(list))
      local parameters = nn.ParameterList {torch.zeros(1), torch.zeros(2)}
      parameters[-1] = torch.zeros(3)
      assert.same({2, 3, true}, {#parameters, parameters[2]:numel(), parameters[-1].is_parameter})
      assert.same({1, 3}, {#parameters[{2, 2}], parameters[{2, 2}][1]:numel()})
   end)

   it("are consecutive, each with a module", function()
      local model, list = nn.Sequential(nn.ReLU()), nn.ModuleList {nn.ReLU()}
      local parameters = nn.ParameterList {torch.zeros(1)}
      for _, container in ipairs {model, list, parameters} do
         local value = container == parameters and torch.zeros(1) or nn.Tanh()
         assert.raises("expected a position from 1 to 2, got 3", function() container[3] = value end)
         assert.raises("expected a position from 1 to 2, got 0", function() container[0] = value end)
         assert.raises("expected a position from -1 to -1, got -2", function() container[-2] = value end)
         assert.raises("position 2: expected a", function() container[2] = "x" end)
         assert.raises("counted from 1", function() return container[0] end)
         assert.equal(1, #container)
         container[2] = value
         assert.equal(2, #container)
      end
      assert.raises("position 3: expected a module, got the class nn.ReLU", function() model[3] = nn.ReLU end)
   end)

   it("have a known order", function()
      for _, make in ipairs {nn.Sequential, nn.ModuleList, nn.Sequential().extend} do
         local self = make == nn.Sequential().extend and nn.Sequential() or nil
         local function call(list)
            if self then return make(self, list) end
            return make(list)
         end
         assert.raises("got a table with the key conv", function() call {conv = nn.ReLU()} end)
         assert.raises("got a table with the key conv", function() call {nn.ReLU(), conv = nn.ReLU()} end)
      end
      assert.raises("nn.ModuleList: modules: expected one list of modules, got 2 arguments",
         function() nn.ModuleList(nn.ReLU(), nn.Tanh()) end)
      assert.raises("expected a list of modules, got an instance of nn.ReLU", function() nn.ModuleList(nn.ReLU()) end)
      assert.equal(2, #nn.ModuleList(nn.Sequential(nn.ReLU(), nn.Tanh())))
      assert.raises("got a table with the key a", function() nn.ParameterList {a = torch.zeros(1)} end)
   end)

   it("hold all modules that nn.Sequential calls", function()
      local model = nn.Sequential(nn.ReLU())
      assert.raises("nn.Sequential: fc: seq:add_module", function() model.fc = nn.Linear(1, 1) end)
      model.name = "a field that is no module"
      local Block = torch.class("Block", nn.Sequential)
      function Block:forward(x) return self.last(nn.Sequential.forward(self, x)) end
      local block = Block(nn.ReLU())
      block.last = nn.Linear(1, 2)
      assert.equal(2, block(torch.ones(1, 1)).shape[2])
   end)

   it("are an error in other modules, so that no loop over one runs zero times", function()
      for _, module in ipairs {nn.Linear(1, 1), nn.ModuleDict {a = nn.ReLU()}} do
         assert.raises("this module has no numbered parts", function()
            for _ in ipairs(module) do error "a part" end
         end)
      end
      for _ in ipairs(nn.ModuleList()) do error "a part" end
   end)
end)

describe("a module that contains itself", function()
   it("is refused at the assignment, which changes nothing", function()
      local inner = nn.Sequential(nn.ReLU())
      local outer = nn.Sequential(nn.Sequential(inner))
      assert.raises("nn.Sequential: 2: expected a module that does not contain it, got the module "
         .. "itself", function() inner:add(inner) end)
      local circle = "expected a module that does not contain it, got an instance of nn.Sequential "
         .. "that contains it"
      assert.raises(circle, function() inner:add(outer) end)
      assert.raises(circle, function() inner:insert(1, outer) end)
      assert.raises(circle, function() inner:add_module("1", outer) end)
      assert.raises(circle, function() inner.up = outer end)
      assert.raises(circle, function() inner[1].back = outer end)
      local list, dict = nn.ModuleList {inner}, nn.ModuleDict {a = inner}
      assert.raises("the module itself", function() list:append(list) end)
      assert.raises("the module itself", function() dict:set("a", dict) end)
      assert.raises("the module itself", function() dict.b = dict end)
      assert.equal(1, #inner)
      assert.equal(1, #list)
      assert.same({[1] = inner}, {dict.a})
      assert.same({1, 1}, outer(torch.ones(2)):tolist())
      outer:add(inner) -- the same child may be added twice
      assert.equal(2, #outer)
   end)

   it("raises an error that names the field that holds it", function()
      local circle = nn.Sequential(nn.ReLU(), nn.Tanh())
      -- Lua calls no metamethod for an assignment to an existing key. So this cycle is found only when the module is
      -- used.
      circle[2] = circle
      assert.raises("nn.Sequential contains itself", function() circle:apply(print) end)
      assert.equal("Sequential(\n  (1): ReLU()\n  (2): Sequential(...)\n)", tostring(circle))
      assert.same({}, circle:parameters())
   end)
end)
