-- old_names.lua - old names of parameters. Files of earlier versions of torchvision, which are
-- still in use, contain these names.

--- Lets a module load state dicts that have the names of an earlier version.
---@param module nn.Module
---@param names table<string, string>  maps old names to new names; numbers in both count from 0
return function(module, names)
   module:register_load_state_dict_pre_hook(function(_, state, prefix)
      for old, new in pairs(names) do
         if state[prefix .. old] ~= nil and state[prefix .. new] == nil then
            state[prefix .. new], state[prefix .. old] = state[prefix .. old], nil
         end
      end
   end)
end
