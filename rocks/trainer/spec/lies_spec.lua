-- Tests that a training refuses a checkpoint whose fields differ from those that a trainer saves.

local torch = require "tlua"
local trainer = require "tlua.trainer"
local shell = require "spec.support.shell"
local nn = torch.nn

local function make(options)
   local all = {logger = false, enable_progress_bar = false, enable_model_summary = false}
   for name, value in pairs(options) do all[name] = value end
   return trainer.Trainer(all)
end

local function learner() return trainer.Learner(nn.Linear(2, 1), nn.MSELoss(), {lr = 0.1}) end

local x = torch.ones(8, 2)
local loader = torch.data.DataLoader(torch.data.TensorDataset(x, x:sum(2, {keepdim = true})), {batch_size = 4})

-- Returns the state of a training of two epochs.
local function saved(folder)
   make({max_epochs = 2, callbacks = {trainer.ModelCheckpoint {dirpath = folder, save_last = true}}})
      :fit(learner(), loader)
   return torch.load(folder .. "/last.ckpt")
end

local function copy(value)
   if type(value) ~= "table" or torch.is_tensor(value) then return value end
   local result = {}
   for key, item in pairs(value) do result[key] = copy(item) end
   return result
end

-- Returns the paths of all fields up to the given depth.
local function paths_of(value, depth, prefix, list)
   for key, item in pairs(value) do
      local path = table.move(prefix, 1, #prefix, 1, {})
      path[#path + 1] = key
      list[#list + 1] = path
      if depth > 1 and type(item) == "table" and not torch.is_tensor(item) then
         paths_of(item, depth - 1, path, list)
      end
   end
   return list
end

-- Returns a copy of a state in which the field at `path` has another value.
local function changed(state, path, value)
   local result = copy(state)
   local at = result
   for i = 1, #path - 1 do at = at[path[i]] end
   at[path[#path]] = value
   return result
end

-- Continues a training from a state. Returns the message of the error, or nil.
local function go_on(folder, state)
   torch.save(state, folder .. "/bad.ckpt")
   local run = make {max_epochs = 3, enable_checkpointing = false}
   local ok, message = pcall(run.fit, run, learner(), loader, nil, {ckpt_path = folder .. "/bad.ckpt"})
   return not ok and message or nil
end

describe("a checkpoint that lies", function()
   it("is refused with the file and the field", function()
      shell.with_folder(function(folder)
         local state = saved(folder)
         assert.is_nil(go_on(folder, state))
         for _, row in ipairs {
            {{"epoch"}, -1, "epoch: expected an integer of at least 0, got -1"},
            {{"epoch"}, 0 / 0, "epoch: expected an integer of at least 0, got "},
            {{"global_step"}, "many", 'global_step: expected an integer of at least 0, got "many"'},
            {{"loops", "accumulate"}, 0, "loops.accumulate: expected an integer of at least 1, got 0"},
            {{"loops", "place"}, "middle", 'loops.place: expected batch, validated, epoch or done, got "middle"'},
            {{"metrics", "bar"}, nil, "metrics.bar: expected a table, got nil"},
            {{"optimizer_states"}, {2}, "optimizer_states: expected a list of tables, got a table"},
            {{"ranks", 1, "random"}, 3, "ranks[1].random: expected a table, got 3"},
            {{"ranks", 1, "results"}, {{}}, "ranks[1].results: expected a list of tables with names, got a table"},
         } do
            local message = go_on(folder, changed(state, row[1], row[2]))
            assert.is_truthy(message and message:find(("ckpt_path: %s/bad.ckpt: %s"):format(folder, row[3]), 1, true),
               row[3] .. "\n" .. tostring(message))
         end
         local message = go_on(folder, changed(state, {"optimizer_states", 1, "param_groups", 1}, 5))
         local expected <const> = "Adam.load_state_dict: param_groups[1]: expected a table, got 5"
         assert.is_truthy(message:find(expected, 1, true), message)
      end)
   end)

   it("is never a fault of the library", function()
      shell.with_folder(function(folder)
         local state = saved(folder)
         local paths, refused = paths_of(state, 5, {}, {}), 0
         assert.is_true(#paths > 50)
         for _, path in ipairs(paths) do
            for _, value in ipairs {false, "x", -7, 0 / 0, {}} do
               local message = go_on(folder, changed(state, path, value or nil))
               if message then
                  refused = refused + 1
                  assert.is_nil(message:find "^tlua:" or message:find "attempt to", message)
               end
            end
         end
         assert.is_true(refused > 200)
      end)
   end)
end)
