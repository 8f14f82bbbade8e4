-- calls.lua - the calls whose bits must be the same on every machine. These are all operators of the table on their
-- examples, forward and backward; elementwise functions on many numbers; layers, losses and optimizers on shapes that
-- several threads share; random numbers; and ten short trainings. run(emit) calls emit(group, value) for each call;
-- `value` is a number, a tensor, or a table of these.

local sorted = require "spec.support.sorted"
local table_of = require "spec.support.table"
local torch = require "tlua"
local nn, F, optim = torch.nn, torch.nn.functional, torch.optim

local M = {}

-- Maps operators that are not called to the reason.
local left_out <const> = {
   empty = "its memory is not initialised", empty_like = "its memory is not initialised",
   empty_strided = "its memory is not initialised", new_empty = "its memory is not initialised",
   new_empty_strided = "its memory is not initialised", resize_ = "its memory is not initialised",
   empty_permuted = "its memory is not initialised",
   cuda = "there need not be a device", sim = "there need not be a device",
}

-- Returns whether an error is a refusal by the portable mode itself.
local function is_refused(fault)
   return tostring(fault):find('use_deterministic_algorithms "portable"', 1, true) ~= nil
end

-- Operators -----------------------------------------------------------------------------------------------------------

local dtypes <const> = {"float64", "float32", "float16", "bfloat16"}

local function in_dtype(args, dtype)
   return table_of.map(args, function(x)
      if not x:is_floating_point() then return x end
      local y = x:detach():to(dtype)
      return x.requires_grad and y:requires_grad_() or y
   end)
end

local function call_of(row, args)
   local results = table_of.call(row, args)
   local ok, grads = pcall(table_of.gradients, args, results)
   return {results, ok and grads or 0}
end

local function operators(emit)
   for _, row in ipairs(table_of.rows()) do
      if not left_out[row.name] then
         for _, text in ipairs(row.examples) do
            local args = table_of.arguments(text)
            for _, dtype in ipairs(dtypes) do
               local ok, value = pcall(call_of, row, in_dtype(args, dtype))
               if ok then
                  emit("operator " .. row.name, value)
               elseif is_refused(value) then
                  emit("operator " .. row.name, "refused")
               end
            end
         end
      end
   end
end

-- Returns numbers of all magnitudes, followed by special numbers such as infinity and NaN.
local function numbers(n, dtype)
   torch.manual_seed(3)
   local x = torch.randn(n, {dtype = "float64"}) * torch.pow(10, torch.rand(n, {dtype = "float64"}) * 12 - 9)
   local special = torch.tensor({0, -0.0, 1, -1, 0.5, 1 / 0, -1 / 0, 0 / 0, 1e-310, 1e300, -1e-45, 3.5, 2, 709.5},
      {dtype = "float64"})
   return torch.cat({x, special}):to(dtype)
end

-- Returns whether a call on vectors of 5 elements returns 5 elements. Outer products do not, for
-- example.
local function keeps_size(row, n)
   local x = torch.rand(5)
   local ok, results = pcall(table_of.call, row, {n = n, x, n == 2 and x or nil})
   for _, y in ipairs(ok and table_of.tensors(results) or {}) do ok = ok and y:numel() <= 5 end
   return ok
end

local function elementwise(emit)
   for _, dtype in ipairs {"float64", "float32"} do
      local x, y = numbers(70001, dtype), numbers(70001, dtype):flip(1)
      for _, row in ipairs(table_of.rows()) do
         local unary = #row.examples > 0 and row.method and not row.name:find("_$") and not left_out[row.name]
         local first = unary and table_of.arguments(row.examples[1])
         if first and first.n <= 2 and torch.is_tensor(first[1]) and first[1]:is_floating_point()
            and (first.n == 1 or torch.is_tensor(first[2]) and first[2]:is_floating_point())
            and keeps_size(row, first.n) then
            local ok, value = pcall(table_of.call, row, {n = first.n, x, first.n == 2 and y or nil})
            -- the sign of NaN differs between processors, so NaN is left out
            local of_sign = row.name == "signbit" or row.name == "copysign"
            if ok and not of_sign then emit("elementwise " .. row.name, value) end
         end
      end
   end
end

-- Layers --------------------------------------------------------------------------------------------------------------

-- Calls a layer with random parameters and inputs. Returns the result and all gradients.
local function both_ways(layer, ...)
   local inputs = {...}
   for _, x in ipairs(inputs) do if x:is_floating_point() then x:requires_grad_() end end
   local results = table.pack(layer(table.unpack(inputs)))
   local loss = 0
   for _, y in ipairs(table_of.tensors(results)) do
      if y.requires_grad then loss = loss + (y * y:detach():sin()):sum() end
   end
   loss:backward()
   local grads = {}
   for _, x in ipairs(inputs) do grads[#grads + 1] = x.grad end
   if type(layer) ~= "function" then
      for _, p in ipairs(layer:parameters()) do grads[#grads + 1] = p.grad end
   end
   return {results, grads}
end

local layers <const> = {
   ["Linear"] = {function() return nn.Linear(300, 200) end, {130, 300}},
   ["Linear vector"] = {function() return nn.Linear(2000, 1) end, {70, 2000}},
   ["Linear row"] = {function() return nn.Linear(900, 700) end, {1, 900}},
   ["Bilinear"] = {function() return nn.Bilinear(20, 30, 11) end, {17, 20}, {17, 30}},
   ["Conv1d"] = {function() return nn.Conv1d(16, 33, 5, {padding = 2, dilation = 2}) end, {4, 16, 101}},
   ["Conv2d 3"] = {function() return nn.Conv2d(16, 24, 3, {padding = 1}) end, {4, 16, 33, 31}},
   ["Conv2d 1"] = {function() return nn.Conv2d(33, 40, 1) end, {4, 33, 17, 19}},
   ["Conv2d 5 stride"] = {function() return nn.Conv2d(3, 20, 5, {stride = 2}) end, {3, 3, 40, 40}},
   ["Conv2d depthwise"] = {function() return nn.Conv2d(24, 24, 3, {groups = 24, padding = 1}) end, {2, 24, 28, 28}},
   ["Conv2d 7"] = {function() return nn.Conv2d(3, 16, 7, {padding = 3, stride = 2}) end, {2, 3, 64, 64}},
   ["Conv3d"] = {function() return nn.Conv3d(4, 8, 3) end, {2, 4, 9, 9, 9}},
   ["ConvTranspose2d"] = {function() return nn.ConvTranspose2d(12, 7, 4, {stride = 2, padding = 1}) end,
      {2, 12, 15, 15}},
   ["BatchNorm1d"] = {function() return nn.BatchNorm1d(60) end, {300, 60}},
   ["BatchNorm2d"] = {function() return nn.BatchNorm2d(20) end, {8, 20, 21, 21}},
   ["LayerNorm"] = {function() return nn.LayerNorm(257) end, {200, 257}},
   ["GroupNorm"] = {function() return nn.GroupNorm(4, 20) end, {6, 20, 15, 15}},
   ["InstanceNorm2d"] = {function() return nn.InstanceNorm2d(10, {affine = true}) end, {4, 10, 25, 25}},
   ["RMSNorm"] = {function() return nn.RMSNorm(129) end, {300, 129}},
   ["RNN"] = {function() return nn.RNN(20, 30) end, {11, 5, 20}},
   ["LSTM"] = {function() return nn.LSTM(33, 47, {num_layers = 2}) end, {13, 9, 33}},
   ["LSTM both"] = {function() return nn.LSTM(16, 24, {bidirectional = true}) end, {7, 5, 16}},
   ["GRU"] = {function() return nn.GRU(33, 47) end, {13, 9, 33}},
   ["MultiheadAttention"] = {function() return nn.MultiheadAttention(48, 6) end, {30, 3, 48}, {30, 3, 48}, {30, 3, 48}},
   ["TransformerEncoderLayer"] = {function()
      return nn.TransformerEncoderLayer(48, 4, {dim_feedforward = 96, dropout = 0})
   end, {30, 3, 48}},
   ["MaxPool2d"] = {function() return nn.MaxPool2d(3, {stride = 2}) end, {4, 8, 41, 41}},
   ["AvgPool2d"] = {function() return nn.AvgPool2d(3, {stride = 2}) end, {4, 8, 41, 41}},
   ["AdaptiveAvgPool2d"] = {function() return nn.AdaptiveAvgPool2d(7) end, {4, 8, 41, 41}},
   ["Softmax"] = {function() return nn.Softmax(2) end, {200, 1003}},
   ["LogSoftmax"] = {function() return nn.LogSoftmax(1) end, {1003, 200}},
   ["GELU"] = {function() return nn.GELU() end, {200, 1003}},
   ["Tanh"] = {function() return nn.Tanh() end, {200, 1003}},
   ["Mish"] = {function() return nn.Mish() end, {200, 1003}},
   ["Upsample"] = {function() return nn.Upsample {scale_factor = 2, mode = "bilinear"} end, {2, 5, 31, 33}},
   ["Dropout"] = {function() return nn.Dropout(0.3) end, {300, 301}},
   ["attention"] = {function() return F.scaled_dot_product_attention end,
      {2, 4, 130, 32}, {2, 4, 130, 32}, {2, 4, 130, 32}},
   ["matmul"] = {function() return torch.matmul end, {3, 150, 401}, {3, 401, 90}},
   ["matmul vector"] = {function() return torch.matmul end, {500, 401}, {401}},
   ["cumsum"] = {function() return function(x) return x:cumsum(1) end end, {3000, 50}},
   ["std"] = {function() return function(x) return x:std() end end, {3000, 50}},
   ["logsumexp"] = {function() return function(x) return x:logsumexp(1) end end, {3000, 50}},
   ["fft"] = {function() return function(x) return torch.view_as_real(torch.fft.rfft(x)) end end, {9, 1000}},
   ["stft"] = {function() return function(x)
      return torch.view_as_real(torch.stft(x, 64, {return_complex = true, window = torch.hann_window(64)}))
   end end, {3, 1000}},
   ["norm"] = {function() return function(x) return x:norm() + x:norm(3) end end, {1000, 77}},
   ["sort"] = {function() return function(x) return x:sort(1) end end, {5000, 7}},
   ["cdist"] = {function() return torch.cdist end, {60, 17}, {70, 17}},
   ["grid_sample"] = {function() return F.grid_sample end, {2, 3, 20, 20}, {2, 30, 30, 2}},
   ["einsum"] = {function() return function(a, b) return torch.einsum("bij,bjk->bik", a, b) end end,
      {5, 30, 40}, {5, 40, 20}},
}

local function run_layers(emit)
   for name, made in sorted(layers) do
      for _, dtype in ipairs {"float32", "float64"} do
         torch.manual_seed(11)
         local layer = made[1]()
         if type(layer) ~= "function" then layer:to(dtype) end
         local inputs = {}
         for i = 2, #made do inputs[#inputs + 1] = torch.randn(made[i], {dtype = dtype}) end
         torch.set_default_dtype(dtype)
         local ok, value = pcall(both_ways, layer, table.unpack(inputs))
         torch.set_default_dtype "float32"
         if not ok then error(("%s: %s"):format(name, value), 0) end
         emit("layer " .. name, value)
      end
   end
end

local losses <const> = {"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy_with_logits",
   "kl_div", "poisson_nll_loss", "soft_margin_loss"}

local function run_losses(emit)
   for _, name in ipairs(losses) do
      torch.manual_seed(5)
      local x = torch.randn(200, 301, {requires_grad = true})
      local loss = F[name](x, torch.rand(200, 301))
      loss:backward()
      emit("loss " .. name, {loss, x.grad})
   end
   torch.manual_seed(5)
   local x, target = torch.randn(300, 201, {requires_grad = true}), torch.randint(1, 202, {300})
   local loss = F.cross_entropy(x, target, {label_smoothing = 0.1})
   loss:backward()
   emit("loss cross_entropy", {loss, x.grad})
   local logits = torch.randn(30, 4, 12):log_softmax(3):requires_grad_()
   local ctc = F.ctc_loss(logits, torch.randint(2, 13, {4, 9}), {30, 30, 25, 28}, {9, 5, 7, 9})
   ctc:backward()
   emit("loss ctc_loss", {ctc, logits.grad})
end

-- Optimizers, random numbers ------------------------------------------------------------------------------------------

local optimizers <const> = {
   SGD = {lr = 0.1, momentum = 0.9, weight_decay = 1e-3, nesterov = true}, Adam = {lr = 0.01}, AdamW = {lr = 0.01},
   NAdam = {lr = 0.01}, RAdam = {lr = 0.01}, Adamax = {lr = 0.01}, Adagrad = {lr = 0.05}, Adadelta = {lr = 1},
   RMSprop = {lr = 0.01, momentum = 0.5, centered = true}, Rprop = {lr = 0.01}, ASGD = {lr = 0.05},
}

local function run_optimizers(emit)
   for name, options in sorted(optimizers) do
      for _, dtype in ipairs {"float32", "float64"} do
         torch.manual_seed(9)
         local w = torch.randn(333, 200, {dtype = dtype}):requires_grad_()
         local step = optim[name]({w}, options)
         local schedule = optim.lr_scheduler.CosineAnnealingLR(step, {T_max = 7})
         for i = 1, 8 do
            w.grad = (w:detach() * i):sin()
            step:step()
            schedule:step()
         end
         emit("optimizer " .. name, w)
      end
   end
end

local draws <const> = {
   rand = function(d) return torch.rand(5001, {dtype = d}) end,
   randn = function(d) return torch.randn(5001, {dtype = d}) end,
   randint = function() return torch.randint(1, 1000000, {5001}) end,
   randperm = function() return torch.randperm(5001) end,
   bernoulli = function(d) return torch.full({5001}, 0.3, {dtype = d}):bernoulli() end,
   exponential = function(d) return torch.empty(5001, {dtype = d}):exponential_(1.5) end,
   cauchy = function(d) return torch.empty(5001, {dtype = d}):cauchy_() end,
   log_normal = function(d) return torch.empty(5001, {dtype = d}):log_normal_() end,
   geometric = function(d) return torch.empty(5001, {dtype = d}):geometric_(0.2) end,
   poisson = function(d) return torch.poisson(torch.rand(5001, {dtype = d}) * 40) end,
   multinomial = function(d) return torch.rand(50, 100, {dtype = d}):multinomial(20) end,
   gamma = function(d) return torch._standard_gamma(torch.rand(5001, {dtype = d}) * 3) end,
   binomial = function(d)
      return torch.distributions.Binomial(30, torch.rand(501, {dtype = d})):sample()
   end,
   dirichlet = function(d) return torch._sample_dirichlet(torch.rand(50, 7, {dtype = d}) + 0.1) end,
   xavier_uniform = function() return nn.init.xavier_uniform_(torch.empty(50, 70)) end,
   kaiming_normal = function() return nn.init.kaiming_normal_(torch.empty(50, 70)) end,
   trunc_normal = function() return nn.init.trunc_normal_(torch.empty(50, 70)) end,
}

local function run_draws(emit)
   for name, draw in sorted(draws) do
      for seed = 1, 3 do
         for _, dtype in ipairs {"float32", "float64"} do
            torch.manual_seed(seed * 1000003)
            emit("random " .. name, draw(dtype))
         end
      end
   end
end

-- Trainings -----------------------------------------------------------------------------------------------------------

-- Trains a model for a few steps, and returns its losses and its parameters.
local function train(model, make_optimizer, steps, loss_of)
   local values = {}
   local step = make_optimizer(model:parameters())
   for i = 1, steps do
      step:zero_grad()
      local loss = loss_of(model, i)
      loss:backward()
      nn.utils.clip_grad_norm_(model:parameters(), 1)
      step:step()
      values[i] = loss:detach()
   end
   return {values, model:parameters()}
end

local function classify(shape, classes)
   local x, y = torch.randn(shape), torch.randint(1, classes + 1, {shape[1]})
   return function(model) return F.cross_entropy(model(x), y) end
end

local function with(name, options) return function(p) return optim[name](p, options) end end

-- Returns a language model of two blocks.
local function small_gpt()
   local embed, head = nn.Embedding(50, 32), nn.Linear(32, 50)
   local block = nn.TransformerEncoderLayer(32, 4, {dim_feedforward = 64, dropout = 0.1, batch_first = true})
   local all = nn.ModuleList {embed, block, head}
   local mask = nn.Transformer.generate_square_subsequent_mask(16)
   return all, function(x) return head(block(embed(x), {src_mask = mask})) end
end

local trainings <const> = {
   digits = function()
      local net = nn.Sequential(nn.Conv2d(1, 8, 3, {padding = 1}), nn.ReLU(), nn.MaxPool2d(2),
         nn.Conv2d(8, 16, 3, {padding = 1}), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10))
      return train(net, with("Adam", {lr = 1e-3}), 12, classify({64, 1, 8, 8}, 10))
   end,
   ["batch norm"] = function()
      local net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.BatchNorm2d(16), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
         nn.Flatten(), nn.Linear(16, 5))
      return train(net, with("SGD", {lr = 0.1, momentum = 0.9}), 12, classify({32, 3, 17, 17}, 5))
   end,
   ["dropout and gelu"] = function()
      local net = nn.Sequential(nn.Linear(100, 300), nn.GELU(), nn.Dropout(0.2), nn.LayerNorm(300), nn.Linear(300, 7))
      return train(net, with("AdamW", {lr = 1e-3}), 15, classify({128, 100}, 7))
   end,
   lstm = function()
      local lstm, head = nn.LSTM(12, 40), nn.Linear(40, 3)
      local x, y = torch.randn(15, 20, 12), torch.randint(1, 4, {20})
      return train(nn.ModuleList {lstm, head}, with("RMSprop", {lr = 1e-3}), 10, function()
         return F.cross_entropy(head((lstm(x))[-1]), y)
      end)
   end,
   gru = function()
      local gru, head = nn.GRU(12, 30, {num_layers = 2}), nn.Linear(30, 1)
      local x, y = torch.randn(11, 20, 12), torch.randn(20, 1)
      return train(nn.ModuleList {gru, head}, with("NAdam", {lr = 1e-3}), 10, function()
         return F.mse_loss(head((gru(x))[-1]), y)
      end)
   end,
   gpt = function()
      local all, forward = small_gpt()
      local tokens = torch.randint(1, 51, {8, 17})
      return train(all, with("AdamW", {lr = 1e-3}), 10, function()
         local logits = forward(tokens[{{}, {1, 16}}])
         return F.cross_entropy(logits:reshape(-1, 50), tokens[{{}, {2, 17}}]:reshape(-1))
      end)
   end,
   autoencoder = function()
      local net = nn.Sequential(nn.Linear(64, 20), nn.Tanh(), nn.Linear(20, 64), nn.Sigmoid())
      local x = torch.rand(100, 64)
      return train(net, with("Adagrad", {lr = 0.05}), 15, function(model)
         return F.binary_cross_entropy(model(x), x)
      end)
   end,
   regression = function()
      local net = nn.Sequential(nn.Linear(8, 64), nn.Softplus(), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 1)):double()
      local x = torch.randn(256, 8, {dtype = "float64"})
      local y = (x * x):sum(2, true):sqrt()
      return train(net, with("Adamax", {lr = 1e-2}), 20, function(model) return F.huber_loss(model(x), y) end)
   end,
   policy = function()
      local net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 3))
      local x = torch.randn(200, 4)
      return train(net, with("RAdam", {lr = 1e-2}), 10, function(model)
         local d = torch.distributions.Categorical {logits = model(x)}
         local actions = d:sample()
         return -(d:log_prob(actions) * torch.cos(actions:to "float32")):mean() - 0.01 * d:entropy():mean()
      end)
   end,
   vae = function()
      local encoder, decoder = nn.Linear(30, 8), nn.Linear(4, 30)
      local x = torch.rand(90, 30)
      return train(nn.ModuleList {encoder, decoder}, with("Adam", {lr = 1e-2}), 12, function()
         local mean, log_variance = table.unpack(encoder(x):chunk(2, 2))
         local z = mean + torch.randn_like(mean) * (log_variance / 2):exp()
         local kl = -(1 + log_variance - mean ^ 2 - log_variance:exp()):sum() / 2
         return F.binary_cross_entropy_with_logits(decoder(z), x) + kl / 2700
      end)
   end,
}

local function run_trainings(emit)
   for name, training in sorted(trainings) do
      torch.manual_seed(2024)
      emit("training " .. name, training())
   end
end

--- Makes all calls. Calls emit(group, value) for each of them.
---@param emit fun(group: string, value: any)
function M.run(emit)
   run_trainings(emit)
   run_optimizers(emit)
   run_layers(emit)
   run_losses(emit)
   run_draws(emit)
   elementwise(emit)
   operators(emit)
end

return M
