-- Tests the order of a module's children, and which keys pairs(module) visits.

local torch = require "tlua"
local nn = torch.nn

local function names(module)
   local list = {}
   for name in module:named_children() do list[#list + 1] = name end
   return list
end

describe("children of a module", function()
   it("are listed as one line assigns them, though Lua stores the last one first", function()
      local m = nn.Module()
      m.a, m.b, m.c = nn.ReLU(), nn.Tanh(), nn.Sigmoid()
      assert.same({"a", "b", "c"}, names(m))
   end)

   it("are listed as a loop assigns them, whatever the order in which they were made", function()
      local m, made = nn.Module(), {}
      for i = 1, 3 do made[i] = nn.Linear(1, i) end
      for i = 3, 1, -1 do m["up" .. i] = made[i] end
      assert.same({"up3", "up2", "up1"}, names(m))
      local other = nn.Module()
      for _, i in ipairs {2, 3, 1} do other["block" .. i] = made[i] end
      assert.same({"block2", "block3", "block1"}, names(other))
   end)

   it("are listed by the lines of a loop, each in its own order", function()
      local m, made = nn.Module(), {}
      for i = 1, 4 do made[i] = nn.Linear(1, i) end
      for i = 3, 1, -2 do m["x" .. i], m["y" .. i] = made[i], made[i + 1] end
      assert.same({"x3", "y3", "x1", "y1"}, names(m))
   end)
end)

describe("pairs", function()
   local function listed(container)
      local list = {}
      for key, value in pairs(container) do list[#list + 1] = {key, value} end
      return list
   end

   it("goes through the modules of a Sequential and of a ModuleList", function()
      local a, b = nn.Linear(1, 2), nn.ReLU()
      assert.same({{1, a}, {2, b}, {3, b}}, listed(nn.Sequential(a, b, b)))
      assert.same({{1, a}, {2, b}}, listed(nn.ModuleList {a, b}))
      assert.same({}, listed(nn.Sequential()))
   end)

   it("goes through named children after those with positions", function()
      local Chain, parent = torch.class("Chain", nn.Sequential)
      function Chain:__init()
         parent.__init(self, nn.ReLU())
         self.head = nn.Tanh()
      end
      function Chain.forward(_, x) return x end
      local chain = Chain()
      assert.same({{1, chain[1]}, {"head", chain.head}}, listed(chain))
   end)

   it("goes through the items of a ModuleDict, a ParameterList and a ParameterDict", function()
      local a, b = nn.Linear(1, 2), nn.ReLU()
      local dict = nn.ModuleDict():set("z", a):set("b", b)
      assert.same({{"z", a}, {"b", b}}, listed(dict))
      local list = nn.ParameterList {torch.ones(1), torch.ones(2)}
      assert.same({{1, list[1]}, {2, list[2]}}, listed(list))
      local named = nn.ParameterDict {w = torch.ones(1)}
      assert.same({{"w", named.w}}, listed(named))
   end)
end)
