// Control by the keyboard

/** Return a listener that calls the action of the pressed key (`event.key`), in place of what the browser does with the key. With Ctrl, Alt or Meta, it does nothing. */
export const onKeys = (actions: Record<string, () => void>) => (event: KeyboardEvent) => {
  if (!actions[event.key] || event.ctrlKey || event.altKey || event.metaKey) return;
  event.preventDefault();
  event.stopPropagation();
  actions[event.key]();
};
