-- Tests recurrent layers with cuDNN: when cuDNN is called, with which arguments, and what happens if a call fails.
-- spec/cuda/cudnn.c implements the calls, and ends the program if an argument violates the documentation.
-- spec/device/rnn_spec.lua tests that the results equal the CPU's.

local shell = require "spec.support.shell"
local emulated <const> = require("spec.support.device").is_emulated() and it or pending

local prelude <const> = [[
   local nn, cudnn = torch.nn, torch.backends.cudnn
   cudnn.allow_tf32 = false
   torch.set_default_device "cuda"
   torch.manual_seed(1)
   -- Computes a layer on the CPU, and returns its results and gradients.
   local function results(layer, x, retain)
      layer:zero_grad()
      local out, h, c = layer(x)
      if type(h) == "table" then h, c = table.unpack(h) end
      local loss = (out * out):sum() + h:sum()
      if c then loss = loss + (c * c * c):sum() end
      loss:backward {retain_graph = retain}
      if retain then loss:backward() end
      local list = {out, h, x.grad}
      for _, p in ipairs(layer:parameters()) do list[#list + 1] = p.grad end
      x.grad = nil
      for i, t in ipairs(list) do list[i] = t:detach():cpu() end
      return list
   end
   local function apart(a, b)
      local most = 0
      for i, t in ipairs(a) do most = math.max(most, (t - b[i]):abs():max():item()) end
      return most
   end
]]

-- Runs a program with the given settings of the emulator, and returns its output.
local function run(settings, program)
   return shell.ok(("%s %s -e %s"):format(settings, shell.start(), shell.quote(prelude .. program)))
end

-- Runs a program. Returns three numbers: how often it calls cuDNN's forward pass, backward pass for the data, and
-- backward pass for the weights.
local function asked(program, settings)
   local text = run("TLUA_EMULATED_CUDNN=1 " .. (settings or ""), program)
   assert.matches("cuDNN: 0 descriptors are left\n", text)
   local counts = {}
   for i, name in ipairs {"Forward", "BackwardData_v8", "BackwardWeights_v8"} do
      counts[i] = select(2, text:gsub("cudnnRNN" .. name .. "\n", ""))
   end
   return counts
end

describe("cuDNN is used for recurrent layers", function()
   emulated("of every kind and direction, and their gradients", function()
      assert.same({8, 8, 8}, asked [[
         local x = torch.randn(3, 2, 3):requires_grad_()
         results(nn.LSTM(3, 4, {num_layers = 2, bidirectional = true}), x)
         results(nn.LSTM(3, 4, {proj_size = 2, bias = false}), x)
         results(nn.GRU(3, 4), x)
         results(nn.RNN(3, 4), x)
         results(nn.RNN(3, 4, {nonlinearity = "relu", batch_first = true}), x)]])
      assert.same({2, 2, 2}, asked [[
         for _, dtype in ipairs {"float16", "bfloat16"} do
            results(nn.GRU(3, 4, {dtype = dtype}), torch.randn(3, 2, 3, {dtype = dtype}):requires_grad_())
         end]])
   end)

   emulated("only for the gradients that are needed", function()
      assert.same({1, 0, 0}, asked "torch.no_grad(function() nn.LSTM(3, 4)(torch.randn(3, 2, 3)) end)")
      assert.same({1, 1, 0}, asked [[
         local layer = nn.LSTM(3, 4)
         for _, p in ipairs(layer:parameters()) do p:requires_grad_(false) end
         layer(torch.randn(3, 2, 3):requires_grad_()):sum():backward()]])
   end)

   emulated("unless it is missing, disabled, or does not support them", function()
      local gru <const> = "results(nn.GRU(3, 4), torch.randn(3, 2, 3):requires_grad_())"
      assert.same({1, 1, 1}, asked(gru))
      for _, before in ipairs {"cudnn.enabled = false", "cudnn.deterministic = true",
         "torch.use_deterministic_algorithms(true)", "torch.set_default_dtype 'float64'"} do
         assert.same({0, 0, 0}, asked(before .. "\n" .. gru), before)
      end
      assert.same({0, 0, 0}, asked [[
         local R = nn.utils.rnn
         nn.GRU(3, 4)(R.pack_sequence {torch.randn(3, 3), torch.randn(2, 3)}).data:sum():backward()]])
      assert.equal("true\n", run("TLUA_EMULATED_CUDNN=0", gru .. "print(true)"))
   end)
end)

describe("a recurrent layer that cuDNN has computed", function()
   emulated("has the right gradient even if settings change before backward", function()
      for _, first in ipairs {"true", "false"} do
         assert.same(first == "true" and {1, 1, 1} or {0, 0, 0}, asked(([[
            local x = torch.randn(3, 2, 3):requires_grad_()
            local layer = nn.LSTM(3, 4)
            cudnn.enabled = %s
            local out = layer(x)
            cudnn.enabled = not cudnn.enabled
            out:sum():backward()
            local grad = x.grad:cpu()
            local host = x:detach():cpu():requires_grad_()
            layer:to "cpu"
            layer(host):sum():backward()
            assert((grad - host.grad):abs():max():item() < 1e-6)]]):format(first)))
      end
   end)

   it("can be differentiated twice if the graph is kept", function()
      assert.equal("true\n", run("", [[
         local x = torch.randn(3, 2, 3):requires_grad_()
         local layer = nn.LSTM(3, 4)
         local once, twice = results(layer, x), results(layer, x, true)
         for i = 3, #once do once[i] = once[i] * 2 end
         print(apart(once, twice) < 1e-5)]]))
   end)

   emulated("uses TF32 only if that is allowed", function()
      assert.equal("true\ttrue\n", run("", [[
         local layer = nn.RNN(1, 1, {nonlinearity = "relu", bias = false})
         torch.no_grad(function() layer.weight_ih_l0:fill_(1) end)
         local x = torch.full({1, 1, 1}, 1 + 2^-12)
         local function off() return (layer(x) - x):abs():max():item() end
         local exact = off()
         cudnn.allow_tf32 = true
         print(exact == 0, off() == 2^-12)]]))
   end)

   emulated("can be captured with its gradient, once cuDNN has run", function()
      local program <const> = [[
         local layer = nn.LSTM(3, 4, {bidirectional = true})
         local x = torch.zeros(5, 2, 3):requires_grad_()
         local g, s = torch.cuda.Graph(), torch.cuda.Stream()
         local out
         local function step()
            layer:zero_grad {set_to_none = false}
            if x.grad then x.grad:zero_() end
            out = layer(x)
            torch.sum(out * out):backward()
         end
         s:wait_stream(torch.cuda.current_stream())
         torch.cuda.stream(s, function()
            for _ = 1, WARM do step() end
            g:capture_begin()
            step()
            g:capture_end()
         end)
         torch.cuda.current_stream():wait_stream(s)
         local waits = torch.cuda.waits()
         for seed = 1, 3 do
            torch.no_grad(function() x:copy_(torch.randn(5, 2, 3)) end)
            g:replay()
         end
         assert(waits == torch.cuda.waits())
         local got = {out:detach():cpu(), x.grad:cpu(), layer.weight_hh_l0.grad:cpu()}
         step()
         print(apart(got, {out:detach():cpu(), x.grad:cpu(), layer.weight_hh_l0.grad:cpu()}) < 1e-6)]]
      assert.equal("true\n", run("", (program:gsub("WARM", "2"))))
      assert.same({8, 8, 8}, asked((program:gsub("WARM", "2"))))
   end)

   emulated("is computed by our kernels in a capture before that", function()
      assert.same({0, 0, 0}, asked [[
         local layer, x = nn.GRU(3, 4), torch.zeros(5, 2, 3)
         local g, s = torch.cuda.Graph(), torch.cuda.Stream()
         torch.no_grad(function()
            s:wait_stream(torch.cuda.current_stream())
            torch.cuda.stream(s, function()
               g:capture_begin()
               layer(x)
               g:capture_end()
            end)
         end)
         g:replay()]])
   end)
end)

describe("if a call of cuDNN fails,", function()
   -- If cuDNN's forward pass fails, our kernels compute it. The backward pass cannot change to our kernels, because
   -- only cuDNN can read a reserve that cuDNN has filled.
   emulated("the result is the same, or an error names the call, and nothing leaks", function()
      shell.with_folder(function(folder)
         local path = folder .. "/which"
         shell.write(path, "0")
         local text = run(("TLUA_EMULATED_CUDNN=1 TLUA_EMULATED_CUDNN_FAIL=%s"):format(path), ([[
            local layer, x = nn.RNN(3, 4, {bidirectional = true}), torch.randn(3, 2, 3):requires_grad_()
            local expected = results(layer, x)
            for n = 1, 140 do
               local file <close> = assert(io.open("%s", "w"))
               file:write(n)
               file:flush()
               local ok, got = pcall(results, layer, x)
               print(n, ok and apart(expected, got) < 1e-6 or got)
               x.grad = nil
            end]]):format(path))
         assert.matches("cuDNN: 0 descriptors are left\n", text)
         local same, named, failed = 0, 0, select(2, text:gsub(" fails\n", ""))
         for result in text:gmatch "\n%d+\t([^\n]*)" do
            if result == "true" then
               same = same + 1
            else
               assert.matches("cudnn[%w_]+: CUDNN_STATUS_NOT_SUPPORTED", result)
               named = named + 1
            end
         end
         assert.equal(140, same + named)
         assert.is_true(failed > 100 and named > 30 and same > 50,
            ("%d failed, %d were named, %d the same"):format(failed, named, same))
      end)
   end)
end)
