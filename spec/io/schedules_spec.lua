-- Tests learning rate schedules that begin in PyTorch and continue in tlua, and the reverse.
-- spec/fixtures/formats/schedules.py has the same schedules and metrics.

local torch = require "tlua"
local shell = require "spec.support.shell"

local optim = torch.optim
local S = optim.lr_scheduler
local fixture <const> = torch.load "spec/fixtures/formats/schedules.pt"

local make <const> = {
   LambdaLR = function(o)
      return S.LambdaLR(o, {lr_lambda = {function(n) return 0.9 ^ n end, function(n) return 1 / (n + 1) end}})
   end,
   MultiplicativeLR = function(o) return S.MultiplicativeLR(o, function(n) return 0.9 + 0.01 * (n % 3) end) end,
   StepLR = function(o) return S.StepLR(o, 4, {gamma = 0.5}) end,
   MultiStepLR = function(o) return S.MultiStepLR(o, {3, 7, 7, 15}, {gamma = 0.5}) end,
   ConstantLR = function(o) return S.ConstantLR(o, {factor = 0.25, total_iters = 9}) end,
   LinearLR = function(o) return S.LinearLR(o, {start_factor = 0.2, end_factor = 0.9, total_iters = 12}) end,
   ExponentialLR = function(o) return S.ExponentialLR(o, 0.9) end,
   PolynomialLR = function(o) return S.PolynomialLR(o, {total_iters = 14, power = 2.0}) end,
   CosineAnnealingLR = function(o) return S.CosineAnnealingLR(o, 8, {eta_min = 0.001}) end,
   CosineAnnealingWarmRestarts = function(o)
      return S.CosineAnnealingWarmRestarts(o, 3, {T_mult = 2, eta_min = 0.001})
   end,
   CyclicLR = function(o) return S.CyclicLR(o, 0.01, 0.1, {step_size_up = 3, step_size_down = 4}) end,
   CyclicLR2 = function(o) return S.CyclicLR(o, 0.01, 0.1, {step_size_up = 4, mode = "triangular2"}) end,
   CyclicLRexp = function(o) return S.CyclicLR(o, 0.01, 0.1, {step_size_up = 4, mode = "exp_range", gamma = 0.9}) end,
   OneCycleLR = function(o) return S.OneCycleLR(o, 0.2, {total_steps = 30}) end,
   OneCycleLR3 = function(o)
      return S.OneCycleLR(o, {0.2, 0.3}, {total_steps = 40, three_phase = true, anneal_strategy = "linear"})
   end,
   ReduceLROnPlateau = function(o)
      return S.ReduceLROnPlateau(o, {patience = 1, factor = 0.5, cooldown = 1, min_lr = 0.001})
   end,
   ReduceMax = function(o)
      return S.ReduceLROnPlateau(o, "max", {patience = 0, factor = 0.7, threshold = 0.2, threshold_mode = "abs"})
   end,
   SequentialLR = function(o)
      return S.SequentialLR(o, {S.LinearLR(o, {start_factor = 0.1, total_iters = 4}), S.CosineAnnealingLR(o, 10),
         S.ExponentialLR(o, 0.9)}, {4, 12})
   end,
   SequentialEarly = function(o)
      return S.SequentialLR(o, {S.ConstantLR(o, {factor = 0.5, total_iters = 20}), S.StepLR(o, 3, {gamma = 0.5})},
         {9})
   end,
   ChainedScheduler = function(o)
      return S.ChainedScheduler({S.ConstantLR(o, {factor = 0.5, total_iters = 7}), S.ExponentialLR(o, 0.95)}, o)
   end,
   SWALR = function(o)
      return optim.swa_utils.SWALR(o, {swa_lr = 0.03, anneal_epochs = 8, anneal_strategy = "cos"})
   end,
}

-- The same schedules with other options. Loading PyTorch's state replaces these options.
local plain <const> = {
   StepLR = function(o) return S.StepLR(o, 1) end, MultiStepLR = function(o) return S.MultiStepLR(o, {1}) end,
   ConstantLR = function(o) return S.ConstantLR(o) end, LinearLR = function(o) return S.LinearLR(o) end,
   ExponentialLR = function(o) return S.ExponentialLR(o, 0.1) end,
   PolynomialLR = function(o) return S.PolynomialLR(o) end,
   CosineAnnealingLR = function(o) return S.CosineAnnealingLR(o, 2) end,
   CosineAnnealingWarmRestarts = function(o) return S.CosineAnnealingWarmRestarts(o, 7) end,
   CyclicLR = function(o) return S.CyclicLR(o, 0.5, 0.6) end,
   CyclicLR2 = function(o) return S.CyclicLR(o, 0.5, 0.6) end,
   CyclicLRexp = function(o) return S.CyclicLR(o, 0.5, 0.6) end,
   OneCycleLR = function(o) return S.OneCycleLR(o, 1, {total_steps = 7}) end,
   OneCycleLR3 = function(o) return S.OneCycleLR(o, 1, {total_steps = 7}) end,
   ReduceLROnPlateau = function(o) return S.ReduceLROnPlateau(o) end,
   ReduceMax = function(o) return S.ReduceLROnPlateau(o) end,
   SWALR = function(o) return optim.swa_utils.SWALR(o, {swa_lr = 0.9}) end,
}

local metrics <const> = {1.0, 0.8, 0.9, 0.85, 0.79999, 0.7, 0.75, 0.71, 0.72, 0.5, 0.6, 0.55, 0.65, 0.4, 0.4, 0.41,
   0.3, 0.35, 0.31, 0.32, 0.33, 0.34, 0.2, 0.3, 0.3}

local function begin(name, makers)
   local optimizer = optim.SGD({
      {params = {torch.nn.Parameter(torch.zeros(1))}}, {params = {torch.nn.Parameter(torch.zeros(1))}, lr = 0.05},
   }, {lr = 0.1, momentum = 0.9})
   return optimizer, makers[name](optimizer)
end

local function steps(name, optimizer, schedule, first, last)
   local rates = {}
   for i = first, last do
      if name:find "^Reduce" then schedule:step(metrics[i]) else schedule:step() end
      local row = {}
      for _, group in ipairs(optimizer.param_groups) do row[#row + 1], row[#row + 2] = group.lr, group.momentum end
      rates[#rates + 1] = row
   end
   return rates
end

-- Each learning rate is computed from the previous one, so rounding errors accumulate.
local tolerance <const> = 1e-12

local function check_begun(saved, at, name, makers)
   local optimizer, schedule = begin(name, makers)
   optimizer:load_state_dict(saved.optimizer, {names = "pytorch"})
   schedule:load_state_dict(saved.schedule)
   assert.close(fixture.rates[at], torch.tensor(steps(name, optimizer, schedule, 6, 25), {dtype = "float64"}),
      tolerance, name)
end

describe("a schedule that PyTorch has begun", function()
   for i, name in ipairs(fixture.names) do
      it("continues in tlua, such as " .. name, function()
         check_begun(fixture.states[name], i, name, make)
         if plain[name] then check_begun(fixture.states[name], i, name, plain) end
      end)
   end
end)

describe("a schedule's state with names = \"pytorch\"", function()
   for i, name in ipairs(fixture.names) do
      it("has the fields and values of PyTorch's, such as " .. name, function()
         local optimizer, schedule = begin(name, make)
         steps(name, optimizer, schedule, 1, 5)
         local function compare(expected, got, path)
            if type(expected) ~= "table" then
               if type(expected) == "number" and type(got) == "number" then
                  assert.close(expected, got, tolerance, path)
               else
                  assert.equal(expected, got, path)
               end
               return
            end
            assert.equal("table", type(got), path)
            for key, value in pairs(expected) do compare(value, got[key], path .. "." .. tostring(key)) end
            for key, value in pairs(got) do
               -- null in PyTorch's file means that the field is missing
               local is_none = value == torch.utils.json.null
               assert.is_true(expected[key] ~= nil or is_none, path .. "." .. tostring(key))
            end
         end
         -- Some of PyTorch's schedules count steps only to print a warning. In PyTorch's state, a schedule inside
         -- another schedule also has its last rate.
         local expected, got = fixture.states[name].schedule, schedule:state_dict {names = "pytorch"}
         local function without_counts(state)
            if name ~= "SWALR" then state._step_count = nil end
            for _, inner in ipairs(state._schedulers or {}) do inner._step_count, inner._last_lr = nil, nil end
            return state
         end
         compare(without_counts(expected), without_counts(got), name)
         local other, again = begin(name, make)
         again:load_state_dict(schedule:state_dict {names = "pytorch"}, {names = "pytorch"})
         other:load_state_dict(optimizer:state_dict())
         local rates = torch.tensor(steps(name, other, again, 6, 25), {dtype = "float64"})
         assert.close(fixture.rates[i], rates, tolerance)
      end)
   end

   it("is refused by another kind of schedule, and if it is damaged", function()
      local function state_of(name) return select(2, begin(name, make)):state_dict {names = "pytorch"} end
      local function schedule_of(name) return select(2, begin(name, make)) end
      assert.raises("optim.lr_scheduler.StepLR.load_state_dict: state_dict: expected step_size, got T_max: ",
         function() schedule_of("StepLR"):load_state_dict(state_of "CosineAnnealingLR") end)
      assert.raises("CyclicLR.load_state_dict: state_dict: expected ",
         function() schedule_of("CyclicLR"):load_state_dict(state_of "OneCycleLR") end)
      assert.raises("CyclicLR.load_state_dict: state_dict: expected a state of this schedule, got a table",
         function() schedule_of("CyclicLR"):load_state_dict({max_lrs = {1}}) end)
      assert.raises("OneCycleLR.load_state_dict: state_dict: expected a state of this schedule",
         function() schedule_of("OneCycleLR"):load_state_dict({_schedule_phases = {}, total_steps = 3}) end)
      schedule_of("MultiStepLR"):load_state_dict({last_epoch = 3})
   end)

   it("refuses other names", function()
      local _, schedule = begin("StepLR", make)
      assert.raises('optim.lr_scheduler.StepLR.state_dict: names: expected "pytorch" or nil, got "torch"',
         function() schedule:state_dict {names = "torch"} end)
      _, schedule = begin("SequentialLR", make)
      assert.raises('SequentialLR.state_dict: names: expected "pytorch"', function() schedule:state_dict "torch" end)
      assert.raises('SequentialLR.load_state_dict: names: expected "pytorch"',
         function() schedule:load_state_dict({}, {names = "torch"}) end)
   end)

   it("is continued by PyTorch", function()
      local python = shell.python "import torch"
      if not python then return pending "needs Python 3 with PyTorch; PYTHON names it" end
      shell.with_folder(function(folder)
         local own = {}
         for _, name in ipairs(fixture.names) do
            local optimizer, schedule = begin(name, make)
            steps(name, optimizer, schedule, 1, 5)
            own[name] = {
               optimizer = optimizer:state_dict {names = "pytorch"}, schedule = schedule:state_dict {names = "pytorch"},
            }
         end
         torch.save(own, folder .. "/own.pt")
         shell.ok(("%s spec/fixtures/formats/schedules.py go_on %s"):format(python, shell.quote(folder)))
         local rates = torch.load(folder .. "/rates.pt")
         for i, name in ipairs(fixture.names) do
            assert.close(fixture.rates[i], torch.tensor(rates[name], {dtype = "float64"}), tolerance, name)
         end
      end)
   end)
end)
