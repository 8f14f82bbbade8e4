-- Tests scopes that end because a debug hook raises an error, as Ctrl-C does in the interactive mode. The error is
-- raised at each event in turn, including the call that closes the scope. When the interrupted line has ended, the
-- interactive mode must have restored all modes.

local torch = require "tlua"
local repl = require "tlua.repl"
local session = require "spec.main.session"
local nn, optim, func = torch.nn, torch.optim, torch.func

local net = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
local weight = net[1].weight:detach():clone()
local other = {["1.weight"] = torch.zeros(2, 2), ["1.bias"] = torch.zeros(2)}
local x = torch.ones(2, 2)

local function modes()
   return {
      grad = torch.is_grad_enabled(), inference = torch.is_inference_mode_enabled(),
      anomaly = torch.autograd.is_anomaly_enabled(), dtype = torch.get_default_dtype(),
      device = torch.get_default_device(), autocast = torch.is_autocast_enabled "cpu", profiling = torch._profiling(),
      training = net.training, deterministic = torch.are_deterministic_algorithms_enabled(),
      weight = torch.equal(weight, net[1].weight:detach()), text = tostring(net),
      recorded = (net[1].weight * 2).requires_grad, sum = torch.ones(2):add_(1):sum():item(),
   }
end

local function square(a) return (a * a):sum() end

local scopes = {
   no_grad = function() local _ <close> = torch.no_grad() return x * 2 end,
   ["no_grad of a function"] = function() return torch.no_grad(function() return x * 2 end) end,
   enable_grad = function()
      local _ <close> = torch.no_grad()
      local _ <close> = torch.enable_grad() -- luacheck: ignore 411
      return x * 2
   end,
   inference_mode = function() local _ <close> = torch.inference_mode() return x * 2 end,
   set_grad_enabled = function()
      torch.set_grad_enabled(false)
      torch.set_grad_enabled(true)
   end,
   detect_anomaly = function() return torch.autograd.detect_anomaly(function() return x * 2 end) end,
   saved_tensors_hooks = function()
      local function same(t) return t end
      local _ <close> = torch.autograd.graph.saved_tensors_hooks(same, same)
      return net(x)
   end,
   autocast = function() return torch.autocast("cpu", function() return x:matmul(x) end) end,
   ["default dtype"] = function()
      torch.set_default_dtype "float64"
      torch.set_default_dtype "float32"
   end,
   ["default device"] = function()
      torch.set_default_device "sim"
      torch.set_default_device "cpu"
   end,
   scope = function() return torch.scope(function() return x * 2 end) end,
   vmap = function() return func.vmap(function(a) return a * a end)(x) end,
   ["vmap in vmap"] =
      function() return func.vmap(function(a) return func.vmap(function(b) return a * b end)(x) end)(x) end,
   grad = function() return func.grad(square)(x) end,
   ["vmap of grad"] = function() return func.vmap(func.grad(square))(x) end,
   vjp = function()
      local _, pull = func.vjp(square, x)
      return pull(torch.tensor(1.0))
   end,
   jvp = function() return func.jvp(square, x, x) end,
   functional_call = function() return func.functional_call(net, other, x) end,
   ["nested functional_call"] = function()
      local inner = nn.Module()
      function inner.forward(_, a) return func.functional_call(net, other, a) end
      return func.functional_call(inner, {}, x)
   end,
   skip_init = function() return nn.utils.skip_init(nn.Linear, 2, 2) end,
   ["optimizer step"] = function()
      local p = torch.zeros(2, {requires_grad = true})
      local opt = optim.SGD({p}, {lr = 0.1})
      opt:step(function()
         local loss = (p * p):sum()
         loss:backward()
         return loss
      end)
   end,
   ["clipping step"] = function()
      local p = torch.zeros(2, {requires_grad = true})
      p.grad = torch.ones(2)
      optim.SGD({p}, {lr = 0.1}):step {max_norm = 1}
   end,
   update_bn = function() optim.swa_utils.update_bn({x}, net) end,
   profile = function()
      local p <close> = torch.profiler.profile()
      return x * 2, p
   end,
   printing = function() return tostring(net) end,
   checkpoint = function()
      local input = x:clone():requires_grad_()
      torch.utils.checkpoint(function(a) return net(a) end, input):sum():backward()
      net:zero_grad()
   end,
}

-- Runs fn, and raises an error when Lua's debug hook (calls, returns, lines and instructions) is called for the
-- `event`-th time. Returns the number of calls of the hook.
local function interrupted_at(event, fn)
   local count = 0
   local function strike()
      count = count + 1
      if count == event then
         debug.sethook()
         error("interrupted!", 0)
      end
   end
   pcall(function()
      debug.sethook(strike, "crl", 1)
      fn()
      debug.sethook()
   end)
   return count
end

describe("all modes are restored after an interrupted line:", function()
   local before = modes()

   for name, fn in require "spec.support.sorted"(scopes) do
      it(name, function()
         fn() -- the first call of fn loads the modules that fn requires
         local total = interrupted_at(math.huge, fn)
         assert.is_true(total > 3)
         local step = math.max(1, total // 700)
         for event = 1, total, step do
            repl.begin_line()
            interrupted_at(event, fn)
            repl.end_line(true)
            local after = modes()
            for mode, value in pairs(before) do
               if after[mode] ~= value then
                  error(("%s is %s after event %d of %d"):format(mode, after[mode], event, total))
               end
            end
         end
         assert.is_true(pcall(fn))
      end)
   end
end)

describe("a line of the interactive mode", function()
   local strike = "io.popen('kill -INT $PPID'):close(); for i = 1, 1e9 do end\n"

   it("restores all modes when Ctrl-C ends it", function()
      local out, err = session.ask("kept = torch.no_grad(); torch.set_default_dtype 'float64'; "
         .. strike .. "torch.is_grad_enabled(), torch.get_default_dtype()\n")
      assert.matches("interrupted!", err)
      assert.equal("true\tfloat32\n", (out:gsub("torch%.", ""):gsub('"', "")))
   end)

   it("may set modes for those that follow", function()
      assert.equal("false\n", session.ask "local _ = torch.set_grad_enabled(false)\ntorch.is_grad_enabled()\n")
      assert.equal("false\n", session.ask "kept = torch.no_grad()\nerror 'x'\ntorch.is_grad_enabled()\n")
   end)
end)
