// Control by the keyboard

/** Return a reaction to the keyboard: a key with an action, by its name (`event.key`), does only this. With Ctrl, Alt or Meta, it does not. */
export const onKeys = (actions: Record<string, () => void>) => (event: KeyboardEvent) => {
  if (!actions[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
};
