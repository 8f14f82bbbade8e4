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
      for name in nn.Sequential(nn.ReLU(), nn.Linear(1, 1)):named_parameters() do
         names[#names + 1] = name
      end
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
      assert.raises("the range 2 to 4 does not lie inside of 1 to 3",
         function() model:slice(2, 4) end)
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
      assert.raises("nn.Sequential: expected a position from -3 to -1, got -4",
         function() return model[-4] end)
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
      assert.raises("nn.Sequential: module 2: expected a module, got a function", function()
         nn.Sequential(nn.ReLU(), print)
      end)
      assert.raises("module 1: expected a module, got the class nn.ReLU; call it", function()
         nn.Sequential(nn.ReLU)
      end)
   end)

   it("refuses names of modules, and shows the form without them", function()
      assert.raises("got a table with the key conv1, whose order is undefined; write {first, second}",
         function() nn.Sequential {conv1 = nn.ReLU()} end)
      assert.raises("module 2: expected a module, got a pair with the name relu; its modules have "
         .. "positions: write nn.Sequential(first, second)", function()
         nn.Sequential {nn.Tanh(), {"relu", nn.ReLU()}}
      end)
      assert.raises("module 1: expected a module, got a pair with the name conv1", function()
         nn.Sequential({"conv1", nn.ReLU()}, {"relu", nn.ReLU()})
      end)
   end)

   it("gives back its input when it is empty", function()
      assert.equal(5, nn.Sequential()(5))
   end)

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
   end)
end)

describe("nn.ModuleList", function()
   it("registers its modules", function()
      local list = nn.ModuleList({nn.Linear(1, 1)}):append(nn.Linear(1, 1)):extend({nn.ReLU()})
      assert.equal(3, #list)
      assert.equal(4, #list:parameters())
      assert.same({"nn.Linear", "nn.Linear", "nn.ReLU"}, types(list))
      assert.raises("expected a module", function() list:append(3) end)
   end)
end)

describe("a part of an nn.ModuleList", function()
   it("is an nn.ModuleList that shares the modules", function()
      local list = nn.ModuleList {nn.ReLU(), nn.Tanh(), nn.GELU()}
      assert.equal("nn.ModuleList", torch.type(list[{2, 3}]))
      assert.is_true(list[{2, -1}][1] == list[2] and list[-1] == list[3])
      assert.equal(2, #list[{2, 3}])
   end)
end)

describe("nn.ModuleDict", function()
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
      assert.raises("train is the name of a method", function()
         nn.ModuleDict {train = nn.ReLU()}
      end)
   end)
end)

describe("nn.ParameterList", function()
   it("makes parameters of tensors", function()
      local list = nn.ParameterList {torch.ones(2), nn.Parameter(torch.zeros(1))}
      assert.equal(2, #list:parameters())
      assert.is_true(list[1].requires_grad)
   end)
end)

describe("nn.TransformerEncoder", function()
   it("copies its layer", function()
      torch.manual_seed(1)
      local layer = nn.TransformerEncoderLayer(4, 2, {dim_feedforward = 8, dropout = 0})
      local encoder = nn.TransformerEncoder(layer, 2, nn.LayerNorm(4))
      assert.equal(2 * #layer:parameters() + 2, #encoder:parameters())
      local x = torch.randn(3, 2, 4)
      assert.close(encoder.norm(layer(layer(x))):tolist(), encoder(x):tolist(), 1e-6)
   end)
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
         assert.raises("expected a position from 1 to 2, got 3", function()
            container[3] = value
         end)
         assert.raises("expected a position from 1 to 2, got 0", function()
            container[0] = value
         end)
         assert.raises("expected a position from -1 to -1, got -2", function()
            container[-2] = value
         end)
         assert.raises("position 2: expected a", function() container[2] = "x" end)
         assert.raises("counted from 1", function() return container[0] end)
         assert.equal(1, #container)
         container[2] = value
         assert.equal(2, #container)
      end
      assert.raises("position 3: expected a module, got the class nn.ReLU",
         function() model[3] = nn.ReLU end)
   end)

   it("have a known order", function()
      for _, make in ipairs {nn.Sequential, nn.ModuleList, nn.Sequential().extend} do
         local self = make == nn.Sequential().extend and nn.Sequential() or nil
         local function call(list)
            if self then return make(self, list) end
            return make(list)
         end
         assert.raises("got a table with the key conv", function() call {conv = nn.ReLU()} end)
         assert.raises("got a table with the key conv",
            function() call {nn.ReLU(), conv = nn.ReLU()} end)
      end
      assert.raises("nn.ModuleList: modules: expected one list of modules, got 2 arguments",
         function() nn.ModuleList(nn.ReLU(), nn.Tanh()) end)
      assert.raises("expected a list of modules, got an instance of nn.ReLU",
         function() nn.ModuleList(nn.ReLU()) end)
      assert.equal(2, #nn.ModuleList(nn.Sequential(nn.ReLU(), nn.Tanh())))
      assert.raises("got a table with the key a",
         function() nn.ParameterList {a = torch.zeros(1)} end)
   end)

   it("hold all modules that nn.Sequential calls", function()
      local model = nn.Sequential(nn.ReLU())
      local refused = "nn.Sequential: fc: its modules have positions"
      assert.raises(refused, function() model.fc = nn.Linear(1, 1) end)
      assert.raises(refused, function() model:add_module("fc", nn.Linear(1, 1)) end)
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
      outer:add(inner) -- adding it again is allowed
      assert.equal(2, #outer)
   end)

   it("raises an error that names the field that holds it", function()
      local circle = nn.Sequential(nn.ReLU(), nn.Tanh())
      circle[2] = circle -- Lua does not report assignments of existing keys
      assert.raises("nn.Sequential contains itself", function() circle:apply(print) end)
      assert.equal("Sequential(\n  (1): ReLU()\n  (2): Sequential(...)\n)", tostring(circle))
      assert.same({}, circle:parameters())
   end)
end)
