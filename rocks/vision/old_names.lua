-- old_names.lua - names that parameters had in earlier versions of torchvision, whose files its
-- users still have.

--- Lets a module load states whose names are those of an earlier version.
---@param module nn.Module
---@param names table<string, string>  old name -> name, both with positions from 0
return function(module, names)
   module:register_load_state_dict_pre_hook(function(_, state, prefix)
      for old, new in pairs(names) do
         if state[prefix .. old] ~= nil and state[prefix .. new] == nil then
            state[prefix .. new], state[prefix .. old] = state[prefix .. old], nil
         end
      end
   end)
end
