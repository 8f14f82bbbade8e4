-- old_names.lua - the names of parameters in earlier versions of torchvision, whose files are still
-- in use.

--- Lets a module load state dicts whose names come from an earlier version.
---@param module nn.Module
---@param names table<string, string>  maps old names to names; both have positions from 0
return function(module, names)
   module:register_load_state_dict_pre_hook(function(_, state, prefix)
      for old, new in pairs(names) do
         if state[prefix .. old] ~= nil and state[prefix .. new] == nil then
            state[prefix .. new], state[prefix .. old] = state[prefix .. old], nil
         end
      end
   end)
end
