-- Operators that compute recurrent networks with several layers, in one or both directions, and
-- single cells.

local options = "bool has_biases=true, int num_layers=1, float dropout=0.0, bool train=false, "
   .. "bool bidirectional=false"
local random = ", *, Generator generator=nil"

local params = [[for each layer and direction the weights of the input (gates * H, in) and of the
   state (gates * H, out), both biases (gates * H) if has_biases]]
local common = [[ While training, `dropout` acts on the outputs of each layer but the last. With
   batch_sizes the input is the data of a packed sequence.]]
local sequences = [[over sequences (steps, batch, size), or (batch, steps, size) with
   batch_first. Returns the outputs, and the last]]
local same = " over sequences; arguments and results as those of gru."
local what = {
   lstm = "Runs long short-term memory " .. sequences .. [[ states h and c
   (layers * directions, batch, ...). hx is {h, c}, zeros if missing; params are ]] .. params
      .. ", and the projection (out, H) if there is one." .. common,
   gru = "Runs gated recurrent units " .. sequences .. [[ state
   (layers * directions, batch, H). hx is the first state, zeros if missing; params are ]]
      .. params .. "." .. common,
   rnn_tanh = "Runs the network h' = tanh(W x + U h + b)" .. same,
   rnn_relu = "Runs the network h' = relu(W x + U h + b)" .. same,
}
local gates = {lstm = 4, gru = 3, rnn_tanh = 1, rnn_relu = 1}

-- Returns example parameters for all layers and directions of a network. `inputs` lists their input
-- sizes.
local function weights(name, hidden, inputs, biases)
   local list, rows = {}, gates[name] * hidden
   for _, n in ipairs(inputs) do
      list[#list + 1] = ("T(%d, %d), T(%d, %d)"):format(rows, n, rows, hidden)
      if biases then list[#list] = ("%s, T(%d), T(%d)"):format(list[#list], rows, rows) end
   end
   return "{" .. table.concat(list, ", ") .. "}"
end

local casts = {gpu = "lower"}

for _, name in ipairs {"lstm", "gru", "rnn_tanh", "rnn_relu"} do
   local lstm = name == "lstm"
   local hx = lstm and "Tensor[]? hx" or "Tensor? hx"
   local results = lstm and "(Tensor output, Tensor hn, Tensor cn)" or "(Tensor output, Tensor hn)"
   local function state(size)
      return lstm and ("{T(%s), T(%s)}"):format(size, size) or ("T(%s)"):format(size)
   end
   op {("%s(Tensor input, %s, Tensor[] params, %s, bool batch_first=false%s) -> %s"):format(
          name, hx, options, random, results),
       doc = what[name], composite = true, method = false, out = false, autocast = casts,
       examples = {
          ("T(2, 2, 1), %s, %s"):format(state "1, 2, 2", weights(name, 2, {1}, true)),
          ("T(1, 2, 1), %s, %s, false, 2, 0.0, false, false, true"):format(
             state "2, 1, 1", weights(name, 1, {1, 1})),
          ("T(2, 1, 1), nil, %s, false"):format(weights(name, 1, {1})),
          lstm and "T(2, 1, 1), {T(1, 1, 1), T(1, 1, 2)}, {T(8, 1), T(8, 1), T(1, 2)}, false"
             or nil,
       }}
   op {("%s.data(Tensor data, Tensor batch_sizes, %s, Tensor[] params, %s%s) -> %s"):format(
          name, hx, options, random, results),
       doc = what[name], composite = true, method = false, out = false, autocast = casts,
       any_device = {batch_sizes = true},
       waits = "batch sizes that lie on a device are read on the host",
       examples = {("T(3, 1), torch.tensor{2, 1}, %s, %s, false, 1, 0.0, false, true"):format(
          state "2, 2, 1", weights(name, 1, {1, 1}))}}
end

local cell = "Tensor w_ih, Tensor w_hh, Tensor b_ih=nil, Tensor b_hh=nil) -> "
op {"lstm_cell(Tensor input, Tensor[]? hx, " .. cell .. "(Tensor hy, Tensor cy)",
    doc = [[Computes one step of lstm: the next states, from an input (batch, size) and the states
    {h, c} (batch, H), which are zeros if missing.]], composite = true, method = false, out = false,
    autocast = casts,
    examples = {"T(2, 1), {T(2, 2), T(2, 2)}, T(8, 1), T(8, 2), T(8), T(8)",
       "T(2, 1), nil, T(4, 1), T(4, 1)"}}
for _, name in ipairs {"gru", "rnn_tanh", "rnn_relu"} do
   local size = 2 * gates[name]
   op {name .. "_cell(Tensor input, Tensor? hx, " .. cell .. "Tensor",
       doc = ([[Computes one step of %s: the next state, from an input (batch, size) and a
       state (batch, H), which is zeros if missing.]]):format(name),
       composite = true, method = false, out = false, autocast = casts,
       examples = {("T(2, 1), T(2, 2), T(%d, 1), T(%d, 2), T(%d), T(%d)"):format(
          size, size, size, size),
          ("T(2, 1), nil, T(%d, 1), T(%d, 1)"):format(size // 2, size // 2)}}
end
