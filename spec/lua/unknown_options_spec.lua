-- Tests that methods refuse unknown options. PyTorch raises a TypeError for them.

local torch = require "tlua"
local nn = torch.nn

local function model() return nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)) end
local function nothing() end

-- Maps each method to the arguments that come before the options.
local of_modules <const> = {
   modules = {}, children = {}, named_children = {}, parameters = {}, named_parameters = {}, buffers = {},
   named_buffers = {}, named_modules = {}, train = {true}, eval = {}, evaluate = {}, zero_grad = {},
   requires_grad_ = {true}, clone = {}, cpu = {}, float = {}, double = {}, half = {}, bfloat16 = {},
   type = {"float64"}, to = {}, to_empty = {}, apply = {nothing}, register_buffer = {"b", torch.ones(1)},
   register_parameter = {"p", nn.Parameter(torch.ones(1))}, add_module = {"m", nn.ReLU()},
   register_module = {"m", nn.ReLU()}, get_submodule = {"1"}, get_parameter = {"1.weight"},
   get_buffer = {"2.running_mean"}, set_submodule = {"1", nn.Linear(2, 2)}, state_dict = {},
   load_state_dict = {model():state_dict()}, register_forward_hook = {nothing}, register_forward_pre_hook = {nothing},
   register_full_backward_hook = {nothing}, register_full_backward_pre_hook = {nothing},
   register_state_dict_pre_hook = {nothing}, register_state_dict_post_hook = {nothing},
   register_load_state_dict_pre_hook = {nothing}, register_load_state_dict_post_hook = {nothing},
   append = {nn.ReLU()}, add = {nn.ReLU()}, insert = {1, nn.ReLU()}, pop = {1}, remove = {1}, extend = {{nn.ReLU()}},
}

local of_optimizers <const> = {
   zero_grad = {}, add_param_group = {{params = {nn.Parameter(torch.ones(1))}}}, each = {}, step = {},
   register_step_pre_hook = {nothing}, register_step_post_hook = {nothing}, register_state_dict_pre_hook = {nothing},
   register_state_dict_post_hook = {nothing}, register_load_state_dict_pre_hook = {nothing},
   register_load_state_dict_post_hook = {nothing}, state_dict = {},
}

local function check_all(methods, make)
   for name, given in pairs(methods) do
      local object = make()
      local list = table.move(given, 1, #given, 1, {})
      list[#list + 1] = {nonsense = 1}
      local ok, message = pcall(object[name], object, table.unpack(list))
      assert.is_false(ok, name)
      assert.truthy(message:find("nonsense", 1, true) or message:find("at most", 1, true), name .. ": " .. message)
   end
end

describe("an unknown option", function()
   it("is refused by every method of modules", function() check_all(of_modules, model) end)

   it("is refused by every method of optimizers", function()
      check_all(of_optimizers, function()
         local p = nn.Parameter(torch.ones(1))
         p.grad = torch.ones(1)
         return torch.optim.SGD({p}, {lr = 0.1})
      end)
   end)

   it("is refused by tables of modules and of parameters", function()
      check_all({items = {}, keys = {}, values = {}, clear = {}, pop = {"a"}, update = {{}}},
         function() return nn.ModuleDict {a = nn.ReLU()} end)
      check_all({items = {}, keys = {}, values = {}, clear = {}, pop = {"a"}, update = {{}},
         get = {"a", torch.ones(1)}, setdefault = {"a", torch.ones(1)}},
         function() return nn.ParameterDict {a = torch.ones(1)} end)
      for _, class in ipairs {nn.ModuleDict, nn.ParameterDict} do
         assert.raises("expected at most 1 argument, got 2", function() class({}, {nonsense = 1}) end)
      end
   end)

   it("is refused by scalers of losses", function()
      local p = nn.Parameter(torch.ones(1))
      local sgd = torch.optim.SGD({p}, {lr = 0.1})
      check_all({get_scale = {}, is_enabled = {}, state_dict = {}, update = {2.0}, unscale_ = {sgd},
         get_growth_factor = {}, set_backoff_factor = {0.5}, step = {sgd},
         load_state_dict = {torch.amp.GradScaler("cpu"):state_dict()}}, function()
         local scaler = torch.amp.GradScaler "cpu"
         scaler:scale((p * 2):sum()):backward()
         return scaler
      end)
   end)

   it("is refused by schedules", function()
      local p = nn.Parameter(torch.ones(1))
      check_all({step = {}, get_last_lr = {}, state_dict = {}},
         function() return torch.optim.lr_scheduler.StepLR(torch.optim.SGD({p}, {lr = 0.1}), 1) end)
   end)

   it("is refused where a module is called with more than it takes", function()
      assert.raises("nn.Sequential: expected 1 argument, got 2", "Sequential",
         function() model()(torch.ones(2, 2), 3) end)
   end)

   it("does not prevent arguments by name or position", function()
      local m = model()
      m:register_buffer("kept", torch.ones(1))
      m:register_buffer("lost", torch.ones(1), false)
      m:register_buffer("lost2", torch.ones(1), {persistent = false})
      m:register_buffer("none", nil)
      local state = m:state_dict()
      assert.truthy(state.kept)
      assert.is_nil(state.lost)
      assert.is_nil(state.lost2)
      m(torch.randn(4, 2)):sum():backward()
      m:zero_grad(false)
      assert.equal(0, m[1].weight.grad:abs():sum():item())
      m:zero_grad {set_to_none = true}
      assert.is_nil(m[1].weight.grad)
   end)
end)

describe("a module's mode", function()
   it("is refused at the assignment if it is not a boolean", function()
      for _, value in ipairs {1, "eval", {}} do
         local m = model()
         assert.raises("nn.Sequential: training: expected true or false, got", "m:train(mode)",
            function() m.training = value end)
         assert.is_true(m.training)
      end
   end)

   it("is refused at the next call after an assignment in evaluation mode", function()
      for i = 1, 3 do
         local m = model():eval()
         m.training = ({1, "eval"})[i] -- for i = 3 the list has no element, so nil is assigned
         assert.raises("nn.Sequential: training: expected true or false, got", "m:train(mode)",
            function() m(torch.ones(2, 2)) end)
      end
   end)

   it("may be assigned, for that module alone", function()
      local m = model():eval()
      m.training = true
      assert.is_true(m.training)
      assert.is_false(m[1].training)
      assert.equal(2, m(torch.ones(2, 2)):dim())
      m.training = false
      assert.is_false(m.training)
      assert.is_false(m:clone().training)
      assert.is_true(m:train()[1].training)
   end)
end)

it("an optimizer cannot be iterated over as a list", function()
   local optimizer = torch.optim.SGD({nn.Parameter(torch.ones(1))}, {lr = 0.1})
   assert.raises("optim: an optimizer has no item 1", "optimizer:each()", function()
      for _ in ipairs(optimizer) do error "not here" end
   end)
   assert.is_nil(optimizer.no_such_field)
end)

describe("arguments too many", function()
   local x = torch.ones(2, 3)
   local calls <const> = {
      ["size: expected no further argument, got"] = function() assert(x:size(1, {dim = 2})) end,
      ["stride: expected no further argument, got 2"] = function() assert(x:stride(1, 2)) end,
      ["result_type: expected no further argument, got 3"] = function() assert(torch.result_type(x, x, 3)) end,
      ["broadcast_shapes: expected lists of sizes, got a table with the key"] =
         function() assert(torch.broadcast_shapes({2}, {device = "cpu"})) end,
      ["from_numpy: unknown option dtype"] = function() assert(torch.from_numpy({1, 2}, {dtype = "int64"})) end,
      ["FloatStorage: further argument: expected none, got a table"] =
         function() assert(torch.FloatStorage(2, {device = "cpu"})) end,
      ["UntypedStorage: further argument: expected none, got 3"] = function() assert(torch.UntypedStorage(2, 3)) end,
      ["nn.utils.parameters_to_vector: unknown option dim"] =
         function() assert(nn.utils.parameters_to_vector({x}, {dim = 1})) end,
      ["nn.Module.eval: unknown option mode; it takes none"] = function() assert(nn.ReLU():eval {mode = true}) end,
   }

   it("are refused", function()
      for message, call in pairs(calls) do assert.raises(message, call) end
   end)
end)
