local torch = require "tlua"
local lazy = require "tlua.lazy"

describe("torch.class", function()
   it("creates a class whose call creates instances", function()
      local Circle = torch.class("Circle")
      function Circle:__init(radius) self.radius = radius end
      function Circle:area() return math.pi * self.radius ^ 2 end
      assert.equal(4 * math.pi, Circle(2):area())
   end)

   it("returns the parent too", function()
      local Shape = torch.class("Shape")
      local Circle, parent = torch.class("Circle", Shape)
      assert.is_true(parent == Shape)
      function Shape:__init(name) self.name = name end
      assert.equal("round", Circle("round").name)
   end)

   it("looks methods up when they are called", function()
      local Shape = torch.class("Shape")
      local Circle = torch.class("Circle", Shape)
      local object = Circle()
      function Shape:sides() return 0 end
      assert.equal(0, object:sides())
      function Circle:sides() return 1 end
      assert.equal(1, object:sides())
   end)

   it("inherits metamethods, those set later too, but not __gc", function()
      local Shape = torch.class("Shape")
      function Shape:__len() return 3 end
      function Shape:__gc() end
      local Circle = torch.class("Circle", Shape)
      function Shape:__call(x) return x end
      function Shape:__tostring() return "shape" end
      local object = Circle()
      assert.same({3, 7, "shape"}, {#object, object(7), tostring(object)})
      assert.is_nil(rawget(Circle, "__gc"))
      function Circle:__len() return 4 end
      assert.same({4, 3}, {#object, #Shape()})
   end)

   it("inherits __call and __newindex", function()
      local Counted = torch.class("Counted")
      local info, made, set = getmetatable(Counted), 0, {}
      local construct, define = info.__call, info.__newindex
      function info.__call(...)
         made = made + 1
         return construct(...)
      end
      function info.__newindex(cls, name, value)
         set[#set + 1] = name
         define(cls, name, value)
      end
      local Child = torch.class("Child", Counted)
      function Child.size() return 2 end
      assert.same({2, 1, {"size"}}, {Child().size(), made, set})
      torch.class "Other"()
      assert.equal(1, made)
   end)

   it("lets a scope close an object", function()
      local closed = 0
      local Handle = torch.class("Handle")
      function Handle:__close() closed = closed + 1 end
      local File = torch.class("File", Handle)
      do local _ <close> = File() end
      assert.equal(1, closed)
   end)

   it("reports types", function()
      local Shape = torch.class("my.Shape")
      local Circle = torch.class("my.Circle", Shape)
      local object = Circle()
      assert.equal("my.Circle", torch.type(object))
      assert.same({true, true, false}, {torch.isinstance(object, Circle),
         torch.isinstance(object, Shape), torch.isinstance(Shape(), Circle)})
      assert.same({"table", "number", "Tensor"}, {torch.type {}, torch.type(1), torch.type(torch.ones(1))})
      for _, value in ipairs {1, "x", {}, print, torch.ones(1)} do assert.is_false(torch.isinstance(value, Shape)) end
      assert.equal("class my.Shape", tostring(Shape))
   end)

   it("is freed with its last reference, though its parent stays", function()
      local parent = torch.class("Parent")
      local seen = setmetatable({}, {__mode = "k"})
      seen[torch.class("Child", parent)] = true
      collectgarbage()
      collectgarbage()
      assert.is_nil(next(seen))
   end)

   it("names the arguments that it expects", function()
      assert.raises("class: name: expected a string", function() torch.class(3) end)
      assert.raises("parent: expected a class", function() torch.class("A", {}) end)
   end)
end)

describe("a module that loads on first use", function()
   it("is found under each of its names", function()
      for _, owner in ipairs {torch, torch.autograd, torch.nn, torch.optim, torch.data,
         torch.utils} do
         for name, file in pairs(lazy.fields(owner)) do
            assert.is_not_nil(owner[name], file .. ": " .. name)
            assert.is_true(rawequal(owner[name], rawget(owner, name)))
         end
      end
   end)

   it("has the functions that layers and losses call", function()
      local F = torch.nn.functional
      for name in ([[relu leaky_relu_ max_pool3d_with_indices adaptive_max_pool1d_with_indices
         max_unpool3d lp_pool1d fold interpolate channel_shuffle alpha_dropout rrelu
         multilabel_margin_loss triplet_margin_loss local_response_norm]]):gmatch "[%w_]+" do
         assert.is_not_nil(F[name], name)
      end
   end)
end)
