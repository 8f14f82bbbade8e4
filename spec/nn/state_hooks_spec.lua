-- Tests hooks of state_dict and load_state_dict, and entries of a state that are not tensors.
local torch = require "tlua"
local nn = torch.nn

local Counter = torch.class("Counter", nn.Module)
function Counter:__init(n)
   nn.Module.__init(self)
   self.n = n
end
function Counter:get_extra_state() return {n = self.n} end
function Counter:set_extra_state(state) self.n = state.n end

describe("a module's extra state", function()
   it("is saved below its path and handed back", function()
      local model = nn.Sequential(nn.Linear(1, 1), Counter(7))
      local state = model:state_dict()
      assert.same({n = 7}, state["2._extra_state"])
      assert.same({n = 7}, model:state_dict {prefix = "m"}["m.2._extra_state"])
      assert.same({n = 7}, model:state_dict {prefix = "m.a."}["m.a.2._extra_state"])
      assert.same({n = 7}, model:state_dict {names = "pytorch"}["1._extra_state"])
      local other = nn.Sequential(nn.Linear(1, 1), Counter(0))
      other:load_state_dict(state)
      assert.equal(7, other[2].n)
   end)

   it("is reported as missing or unexpected, like a tensor", function()
      local plain, counting = nn.Sequential(nn.Linear(1, 1)), nn.Sequential(nn.Linear(1, 1), Counter(3))
      assert.raises("load_state_dict", "missing: 2._extra_state",
         function() counting:load_state_dict(plain:state_dict()) end)
      assert.raises("load_state_dict", "unexpected: 2._extra_state",
         function() plain:load_state_dict(counting:state_dict()) end)
      local missing, unexpected = counting:load_state_dict(plain:state_dict(), {strict = false})
      assert.same({{"2._extra_state"}, {}}, {missing, unexpected})
   end)

   it("needs both methods, and says so before anything is loaded", function()
      local Half = torch.class("Half", nn.Module)
      function Half:__init()
         nn.Module.__init(self)
         self.w = nn.Parameter(torch.zeros(1))
      end
      function Half.get_extra_state() return 1 end
      local half = Half()
      local state = half:state_dict()
      state.w = torch.ones(1)
      assert.raises("Half has no set_extra_state", function() half:load_state_dict(state) end)
      assert.equal(0, half.w:item())
      assert.raises("nn.Linear has no get_extra_state", function() nn.Linear(1, 1):get_extra_state() end)
   end)
end)

describe("hooks of a module's state", function()
   it("run before and after it is taken, those of inner modules first afterwards", function()
      local model, seen = nn.Sequential(nn.Linear(1, 1)), {}
      local handles = {
         model:register_state_dict_pre_hook(function(_, prefix) seen[#seen + 1] = "pre " .. prefix end),
         model[1]:register_state_dict_pre_hook(function(_, prefix) seen[#seen + 1] = "pre " .. prefix end),
         model:register_state_dict_post_hook(function(_, state, prefix)
            seen[#seen + 1] = "post " .. prefix
            state.added = 1
         end),
         model[1]:register_state_dict_post_hook(function(_, state, prefix)
            seen[#seen + 1] = "post " .. prefix
            state[prefix .. "bias"] = nil
         end),
      }
      local state = model:state_dict()
      assert.same({"pre ", "pre 1.", "post 1.", "post "}, seen)
      assert.is_nil(state["1.bias"])
      assert.equal(1, state.added)
      for _, handle in ipairs(handles) do handle:remove() end
      assert.is_nil(model:state_dict().added)
   end)

   it("may rename entries of older versions, without changing the caller's table", function()
      local model, lists = nn.Linear(1, 1), nil
      model:register_load_state_dict_pre_hook(function(_, state, prefix)
         state[prefix .. "weight"] = state[prefix .. "old_weight"]
         state[prefix .. "old_weight"] = nil
      end)
      model:register_load_state_dict_post_hook(function(_, incompatible) lists = incompatible end)
      local state = {old_weight = torch.full({1, 1}, 5.0), bias = torch.zeros(1)}
      model:load_state_dict(state)
      assert.equal(5, model.weight:item())
      assert.truthy(state.old_weight)
      assert.same({missing_keys = {}, unexpected_keys = {}}, lists)
   end)

   it("must be functions", function()
      assert.raises("register_state_dict_post_hook", "a function",
         function() nn.Linear(1, 1):register_state_dict_post_hook(3) end)
   end)
end)

describe("hooks of a module's call", function()
   it("come first with prepend", function()
      local m, seen = nn.Identity(), {}
      m:register_forward_hook(function() seen[#seen + 1] = "a" end)
      m:register_forward_hook(function() seen[#seen + 1] = "b" end, {prepend = true})
      m(1)
      assert.same({"b", "a"}, seen)
      assert.raises("register_forward_hook: unknown option prepnd",
         function() m:register_forward_hook(print, {prepnd = true}) end)
      assert.raises("register_full_backward_hook: unknown option always_call",
         function() m:register_full_backward_hook(print, {always_call = true}) end)
   end)

   it("get keyword arguments as the last input, so with_kwargs is refused", function()
      local m, inputs = nn.Identity()
      m:register_forward_hook(function(_, list) inputs = list end, {with_kwargs = false})
      m(1, {scale = 2})
      assert.same({1, {scale = 2}, n = 2}, inputs)
      for _, method in ipairs {"register_forward_hook", "register_forward_pre_hook"} do
         assert.raises(method .. ": with_kwargs: expected false or nothing, because keyword arguments are a table",
            function() m[method](m, print, {with_kwargs = true}) end)
      end
   end)

   it("run after an error of forward, with always_call, and do not change the error", function()
      local Fails, seen = torch.class("Fails", nn.Module), 0
      function Fails.forward() error({code = 3}, 0) end
      local m = Fails()
      m:register_forward_hook(function(_, inputs) seen = seen + inputs[1] end, {always_call = true})
      m:register_forward_hook(function() seen = 100 end)
      local ok, fault = pcall(m, 5)
      assert.same({false, 3, 5}, {ok, fault.code, seen})
   end)

   it("change the gradients of its results before they go in", function()
      local m, x = nn.Linear(2, 1), torch.ones(1, 2, {requires_grad = true})
      m:register_full_backward_pre_hook(function(_, grads) return {grads[1] * 10} end)
      m(x):sum():backward()
      assert.close(m.weight * 10, x.grad, 1e-6)
      assert.close(torch.tensor {10.0}, m.bias.grad, 0)
   end)
end)

describe("nn.Module", function()
   it("refuses a plain tensor in place of a parameter, when parameters are listed", function()
      local model = nn.Sequential(nn.Linear(2, 2))
      model[1].weight = torch.ones(2, 2)
      for _, list in ipairs {
         function() model:parameters() end, function() model:named_parameters() end,
         function() model:to "float64" end, function() model:state_dict() end,
      } do
         assert.raises("nn.Linear: weight: expected a parameter, as before, got a plain tensor: assign " ..
            "nn.Parameter(tensor)", list)
      end
      model[1].weight = nn.Parameter(torch.ones(2, 2))
      model[1].bias = nil
      assert.equal(1, #model:parameters())
   end)

   it("accepts a buffer or a plain tensor in a field from which the parameter was removed", function()
      local layer = nn.Linear(2, 2)
      layer:register_parameter("weight_raw", nn.Parameter(torch.ones(2, 2)))
      layer.weight = nil
      layer.weight = layer.weight_raw * 2 -- computed from another parameter
      layer:register_buffer("bias", torch.ones(2)) -- takes the place of the parameter
      assert.same({layer.weight_raw}, layer:parameters())
      assert.close({{5, 5}}, layer(torch.ones(1, 2)))
      layer.weight = nil
      layer.weight = nn.Parameter(torch.ones(2, 2))
      layer.weight = torch.ones(2, 2)
      assert.raises("nn.Linear: weight: expected a parameter, as before", function() layer:parameters() end)
   end)

   it("finds buffers and replaces modules by their paths", function()
      local model = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.BatchNorm1d(2)))
      assert.equal(model[2][1].running_mean, model:get_buffer "2.1.running_mean")
      assert.raises("2.1.weight is not a buffer", function() model:get_buffer "2.1.weight" end)
      local relu = nn.ReLU()
      model:set_submodule("2.1", relu)
      assert.equal(relu, model[2][1])
      local dict = nn.ModuleDict {head = nn.Linear(1, 1)}
      dict:set_submodule("head", relu)
      assert.equal(relu, dict.head)
      assert.raises("set_submodule", "has no tail", function() model:set_submodule("tail", relu) end)
      assert.raises("set_submodule", "a module", function() model:set_submodule("1", 3) end)
   end)

   it("casts by type, and compiles to itself", function()
      local m = nn.Linear(2, 2)
      assert.equal("float64", m:type "float64".weight.dtype)
      assert.equal(m, m:compile {mode = "default"})
      assert.raises("type: dtype: expected a floating-point dtype", function() m:type "int64" end)
      assert.raises("compile", "unknown option", function() m:compile {mod = "default"} end)
   end)
end)

describe("containers", function()
   it("insert, extend and pop modules", function()
      local a, b, c = nn.ReLU(), nn.Tanh(), nn.GELU()
      local list = nn.ModuleList {a, c}
      list:insert(2, b)
      assert.same({a, b, c}, {list[1], list[2], list[3]})
      assert.equal(a, list:pop(1))
      assert.same({c, 1}, {list:pop(), #list})
      assert.raises("nn.ModuleList.insert", "position", function() list:insert(7, a) end)
      local seq = nn.Sequential(a):extend {b, c}
      assert.equal(3, #seq)
      assert.equal(c, seq:pop())
      local list_p = nn.ParameterList {torch.ones(1)}
      assert.equal(3, #list_p:extend {torch.ones(1), torch.ones(1)})
   end)

   it("give the names and values of dictionaries", function()
      local relu, tanh = nn.ReLU(), nn.Tanh()
      local dict = nn.ModuleDict {act = relu}
      dict:update {out = tanh}
      assert.same({{"act", "out"}, {relu, tanh}}, {dict:keys(), dict:values()})
      assert.equal(relu, dict:pop "act")
      assert.raises("nn.ModuleDict.pop", "there is no act", function() dict:pop "act" end)
      assert.same({}, dict:clear():keys())
      local parameters = nn.ParameterDict {w = torch.ones(1)}
      assert.same({"w"}, parameters:keys())
      assert.equal(parameters.w, parameters:get "w")
      assert.is_nil(parameters:get "v")
      assert.equal(2, parameters:setdefault("v", torch.full({1}, 2.0)):item())
      assert.equal(2, #parameters:values())
      assert.same({}, parameters:clear():keys())
   end)
end)
